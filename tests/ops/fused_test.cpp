// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/fused.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

bool keeps_zero(const std::string& program, const std::vector<bool>& single) {
  return preserves_zero(fused_elementwise_op(), Attrs::of(FusedAttrs{program}), single);
}

TEST(Fused, KnowsWhetherPaddingStaysZero) {
  EXPECT_TRUE(keeps_zero("add(0,1) relu(2)", {false, false}));
  EXPECT_FALSE(keeps_zero("add(0,1) relu(2)", {false, true}));
  EXPECT_TRUE(keeps_zero("multiply(0,1) relu(2)", {false, true}));
  EXPECT_FALSE(keeps_zero("multiply(0,1)", {true, true}));
}

TEST(Fused, DoesNotTakeZeroTimesAQuotientForZero) {
  EXPECT_FALSE(keeps_zero("divide(1,0) multiply(0,2)", {false, true}));
  EXPECT_FALSE(keeps_zero("add(0,1) multiply(0,2)", {false, true}));
}

}  // namespace
}  // namespace lockstep
