// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "lockstep/ops/ops.h"
#include "tests/message.h"

namespace lockstep {
namespace {

using testing::message_of;

// Functions that look at their tensors before the dispatcher does.
TEST(UndefinedTensor, IsRefusedByTheNameOfTheFunction) {
  const Tensor none;
  const Tensor x = ones({2, 2});
  const auto expect = [](const char* name, auto&& call, int input = 0) {
    EXPECT_EQ(message_of(call), fmt::format("{}: input {} is undefined", name, input));
  };
  expect("split", [&] { split(none, 2); });
  expect("split", [&] { split_sizes(none, {1, 1}); });
  expect(
      "concat",
      [&] {
        concat({x, none}, 0);
      },
      1);
  expect(
      "stack",
      [&] {
        stack({x, none});
      },
      1);
  expect("repeat", [&] { repeat(none, 2); });
  expect("flatten", [&] { flatten(none); });
  expect("swap_axes", [&] { swap_axes(none, 0, 1); });
  expect("slice_axis", [&] { slice_axis(none, 0, 0, 1); });
  expect("zeros_like", [&] { zeros_like(none); });
  expect("ones_like", [&] { ones_like(none); });
  expect("sum_to", [&] { sum_to(none, {}); });
  expect("index", [&] { index(none, {0}); });
  expect("index_assign", [&] { index_assign(none, {0}, x); });
  expect(
      "index_assign", [&] { index_assign(x, {0}, none); }, 1);
  expect(
      "matmul", [&] { matmul(x, none); }, 1);
  expect("dense", [&] { dense(none, x); });
  expect("conv", [&] { conv(none, x); });
  expect(
      "conv_transpose", [&] { conv_transpose(x, none); }, 1);
  expect("negative", [&] { -none; });
  expect("power", [&] { power(none, 2.0); });
  expect("var", [&] { var(none); });
  expect("group_norm", [&] { group_norm(none, x, x, 1); });
  expect(
      "group_norm", [&] { group_norm(x, x, none, 1); }, 2);
  expect("instance_norm", [&] { instance_norm(none, x, x); });
  expect("global_avg_pool", [&] { global_avg_pool(none); });
  expect("adaptive_avg_pool", [&] { adaptive_avg_pool(none, {1}); });
  expect("scaled_dot_product_attention", [&] { scaled_dot_product_attention(none, x, x); });
  expect("softmax_cross_entropy", [&] { softmax_cross_entropy(none, x); });
  expect(
      "sigmoid_cross_entropy", [&] { sigmoid_cross_entropy(x, none); }, 1);
  expect("topk", [&] { topk(none, 1); });
  expect("median", [&] { median(none); });
  expect("RandomScope", [&] { const RandomScope scope(none); });
}

TEST(UndefinedTensor, IsNoIndex) {
  const Tensor x = ones({2, 2});
  EXPECT_EQ(message_of([&] { index(x, {0, Tensor()}); }), "index: index 1 is undefined");
  EXPECT_EQ(message_of([&] { index_assign(x, {Tensor()}, x); }),
            "index_assign: index 0 is undefined");
}

}  // namespace
}  // namespace lockstep
