// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/softmax.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lockstep/ops/catalogue.h"
#include "lockstep/ops/create.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/softmax_attrs.h"
#include "tests/message.h"

namespace lockstep {
namespace {

using testing::message_of;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(Softmax, MaskedElementsGetNothing) {
  const Tensor x = Tensor::from(std::vector<float>{0, -kInfinity, 0}, {3});
  EXPECT_EQ(softmax(x).to_vector<float>(), (std::vector<float>{0.5f, 0, 0.5f}));
  EXPECT_EQ(log_softmax(x).to_vector<float>()[1], -kInfinity);
}

TEST(Softmax, NanAndRowsWithoutAnyChanceGiveNan) {
  for (float odd : {std::nanf(""), kInfinity}) {
    const Tensor x = Tensor::from(std::vector<float>{1, odd, 2}, {3});
    for (float y : softmax(x).to_vector<float>()) EXPECT_TRUE(std::isnan(y));
  }
  for (float y : softmax(full({2, 3}, -kInfinity)).to_vector<float>()) EXPECT_TRUE(std::isnan(y));
  for (float y : softmax(full({2, 3}, -kInfinity), 0).to_vector<float>())
    EXPECT_TRUE(std::isnan(y));
}

TEST(Softmax, BadInputIsRefused) {
  EXPECT_EQ(message_of([] {
              softmax(zeros({2, 3}), 2);
            }),
            "softmax: axis 2 is out of range for 2 dimensions");
  EXPECT_EQ(message_of([] { log_softmax(zeros({})); }),
            "log_softmax: axis -1 is out of range for 0 dimensions");
  EXPECT_EQ(message_of([] { softmax(zeros({2}, DType::int32)); }),
            "softmax: input is int32[2], expected a floating dtype");
  EXPECT_EQ(
      message_of([] {
        apply_one(get_op("softmax_backward"), {zeros({2}), zeros({3})}, Attrs::of(SoftmaxAttrs{}));
      }),
      "softmax_backward: gradient is float32[2], output is float32[3], expected the same");
}

}  // namespace
}  // namespace lockstep
