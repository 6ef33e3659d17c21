// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/index_ops.h"

#include <gtest/gtest.h>

#include "lockstep/autograd/autograd.h"
#include "lockstep/ops/sort.h"
#include "tests/message.h"

namespace lockstep {
namespace {

using testing::message_of;

Tensor indices(const std::vector<std::int64_t>& values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}

TEST(IndexOps, AnIndexOutOfRangeIsNamedWithItsPlace) {
  const Tensor x = Tensor::zeros({5, 2});
  EXPECT_EQ(message_of([&] {
              take(x, indices({0, 1, 7}));
            }),
            "take: index 7 at position 2 is out of range for axis of size 5");
  EXPECT_EQ(message_of([&] { take(x, indices({-6})); }),
            "take: index -6 at position 0 is out of range for axis of size 5");
  EXPECT_EQ(message_of([&] {
              embedding(indices({4, -1}), x);
            }),
            "embedding: index -1 at position 1 is out of range for axis of size 5");
  EXPECT_EQ(message_of([&] {
              gather(x, Tensor::full({1, 2}, 5, DType::int32), 0);
            }),
            "gather: index 5 at position 0 is out of range for axis of size 5");
  EXPECT_EQ(message_of([&] {
              pick(x, indices({0, 1, 0, 1, 2}));
            }),
            "pick: index 2 at position 4 is out of range for axis of size 2");
  EXPECT_EQ(message_of([&] {
              scatter_add(x, Tensor::full({1, 2}, 9, DType::int64), Tensor::zeros({1, 2}), 0);
            }),
            "scatter_add: index 9 at position 0 is out of range for axis of size 5");
  EXPECT_EQ(message_of([] {
              one_hot(indices({1, 3}), 3);
            }),
            "one_hot: index 3 at position 1 is out of range for axis of size 3");
}

TEST(IndexOps, IndicesAreIntegers) {
  const Tensor x = Tensor::zeros({5, 2});
  EXPECT_EQ(message_of([&] { take(x, Tensor::zeros({2})); }),
            "take: indices are float32, they must be int32 or int64");
  EXPECT_EQ(message_of([&] { embedding(Tensor::zeros({2}, DType::uint8), x); }),
            "embedding: indices are uint8, they must be int32 or int64");
}

TEST(IndexOps, ShapesMustBelongTogether) {
  const Tensor x = Tensor::zeros({5, 2});
  EXPECT_EQ(message_of([&] { embedding(indices({0}), Tensor::zeros({3})); }),
            "embedding: the table has shape [3], it must be [rows, width]");
  EXPECT_EQ(message_of([&] { take(x, indices({0}), 2); }),
            "take: axis 2 is out of range for 2 dimensions");
  EXPECT_EQ(message_of([&] { gather(x, indices({0}), 0); }),
            "gather: an index of shape [1] does not fit [5, 2] along axis 0");
  EXPECT_EQ(message_of([&] {
              gather(x, Tensor::zeros({1, 3}, DType::int64), 0);
            }),
            "gather: an index of shape [1, 3] does not fit [5, 2] along axis 0");
  EXPECT_EQ(message_of([&] {
              pick(x, indices({0, 0}));
            }),
            "pick: the index has shape [2], it must be [5] for [5, 2]");
  EXPECT_EQ(message_of([&] {
              scatter_add(x, Tensor::zeros({1, 2}, DType::int64), Tensor::zeros({2, 2}), 0);
            }),
            "scatter_add: updates have shape [2, 2], their index has [1, 2]");
  EXPECT_EQ(message_of([&] {
              scatter_add(x, Tensor::zeros({1, 2}, DType::int64),
                          Tensor::zeros({1, 2}, DType::float64), 0);
            }),
            "scatter_add: updates are float64, the tensor is float32");
  EXPECT_EQ(message_of([] { one_hot(indices({0}), -1); }), "one_hot: depth -1 is negative");
}

TEST(Sort, TopkTakesNoMoreThanThereIs) {
  EXPECT_EQ(message_of([] { topk(Tensor::zeros({2, 5}), 6); }), "topk: k is 6, axis 1 has size 5");
  EXPECT_EQ(message_of([] { sort(Tensor::zeros({}), 0); }),
            "sort: axis 0 is out of range for 0 dimensions");
}

TEST(Sort, AMedianNeedsAnElement) {
  EXPECT_EQ(message_of([] {
              median(Tensor::zeros({2, 0}));
            }),
            "median: axis 1 of shape [2, 0] has no elements");
  EXPECT_EQ(message_of([] { median(Tensor::zeros({3}), 1); }),
            "median: axis 1 is out of range for 1 dimensions");
}

TEST(Sort, TheMedianIsTheLowerOfTwoAndTakesTheWholeGradient) {
  const Tensor x = Tensor::from(std::vector<float>{7, 1, 5, 3}, {4});
  autograd::attach_grad(x);
  const autograd::RecordScope record;
  const auto [value, place] = median(x, 0);
  EXPECT_EQ(value.item(), 3);
  EXPECT_EQ(place.item(), 3);
  autograd::backward(value);
  EXPECT_EQ(autograd::gradient(x).to_vector<float>(), (std::vector<float>{0, 0, 0, 1}));
}

}  // namespace
}  // namespace lockstep
