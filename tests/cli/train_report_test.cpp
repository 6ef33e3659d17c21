// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/train_report.h"

#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

TEST(Bfloat16Notice, IsGivenWhereBfloat16IsSlower) {
  EXPECT_EQ(bfloat16_notice(0.52, "avx512_bf16"),
            "--bf16 is slower than float32 here: with avx512_bf16 this recipe's largest products "
            "run at 0.52 times the speed of float32; the run goes on");
  EXPECT_EQ(bfloat16_notice(1.9, "avx512_bf16"), "");
}

}  // namespace
}  // namespace lockstep::cli
