// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/indexing.h"

#include <gtest/gtest.h>

#include "lockstep/autograd/autograd.h"
#include "lockstep/ops/elementwise.h"
#include "tests/message.h"

// What is expected is what NumPy gives.
namespace lockstep {
namespace {

using testing::message_of;
using Floats = std::vector<float>;

const Slice kAll;

Tensor counting(const Shape& shape) {
  Floats values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return Tensor::from(values, shape);
}

Index list(const std::vector<std::int64_t>& values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}

Index mask(const std::vector<bool>& values, const Shape& shape) {
  return Tensor::from(values, shape);
}

void expect_values(const Tensor& got, const Shape& shape, const Floats& values) {
  EXPECT_EQ(got.shape(), shape);
  EXPECT_EQ(got.to_vector<float>(), values);
}

TEST(Indexing, IntegersSlicesAndNewAxesGiveWindows) {
  const Tensor x = counting({3, 4});
  for (const Tensor& y : {index(x, {1}), index(x, {kAll, Slice{{}, {}, -1}}), index(x, {newaxis}),
                          index(x, {ellipsis, 2})})
    EXPECT_EQ(y.storage(), x.storage());
  EXPECT_TRUE(index(x, {}).same_as(x));
}

TEST(Indexing, BasicItemsMeanWhatPythonMeans) {
  const Tensor x = counting({3, 4});
  expect_values(index(x, {-1}), {4}, {8, 9, 10, 11});
  expect_values(index(x, {1, -2}), {}, {6});
  expect_values(index(x, {Slice{1, {}, {}}, 0}), {2}, {4, 8});
  expect_values(index(x, {ellipsis, 3}), {3}, {3, 7, 11});
  expect_values(index(x, {0, newaxis, Slice{{}, 2, {}}}), {1, 2}, {0, 1});
  expect_values(index(x, {Slice{{}, {}, -2}, Slice{-2, {}, {}}}), {2, 2}, {10, 11, 2, 3});
  expect_values(index(x, {Slice{2, 0, -1}, 0}), {2}, {8, 4});
  expect_values(index(x, {Slice{5, 9, {}}, 0}), {0}, {});
}

TEST(Indexing, TensorsOfIndicesBroadcastInThePlaceOfTheirAxes) {
  const Tensor x = counting({2, 3, 2});
  expect_values(index(x, {kAll, list({2, 0})}), {2, 2, 2}, {4, 5, 0, 1, 10, 11, 6, 7});
  expect_values(index(x, {kAll, list({2, 0}), list({1, -1})}), {2, 2}, {5, 1, 11, 7});
  expect_values(index(x, {kAll, list({2, 0}), 1}), {2, 2}, {5, 1, 11, 7});
  expect_values(index(x, {Tensor::from(std::vector<std::int32_t>{1, 0}, {2, 1}), list({0, 2})}),
                {2, 2, 2}, {6, 7, 10, 11, 0, 1, 4, 5});
}

TEST(Indexing, SeparatedTensorsPutTheirAxesFirst) {
  const Tensor x = counting({2, 3, 2});
  expect_values(index(x, {list({1, 0, 1}), kAll, list({0, 1, 1})}), {3, 3},
                {6, 8, 10, 1, 3, 5, 7, 9, 11});
  expect_values(index(x, {0, kAll, list({0, 1, 1})}), {3, 3}, {0, 2, 4, 1, 3, 5, 1, 3, 5});
  EXPECT_EQ(index(x, {kAll, list({0, 1, 2}), ellipsis, list({0, 1, 1})}).shape(), (Shape{3, 2}));
  EXPECT_EQ(index(x, {kAll, list({0, 1, 2}), newaxis, list({0, 1, 1})}).shape(), (Shape{3, 2, 1}));
}

TEST(Indexing, MasksSelectWhereTheyAreTrue) {
  const Tensor x = counting({2, 3});
  expect_values(index(x, {mask({true, false, true, false, true, true}, {2, 3})}), {4},
                {0, 2, 4, 5});
  expect_values(index(x, {mask({false, true}, {2})}), {1, 3}, {3, 4, 5});
  expect_values(index(x, {kAll, mask({true, false, true}, {3})}), {2, 2}, {0, 2, 3, 5});
  expect_values(index(x, {mask({false, false}, {2})}), {0, 3}, {});
}

TEST(Indexing, GradientsReachEveryElementAsOftenAsItWasRead) {
  const Tensor x = counting({3, 2});
  autograd::attach_grad(x);
  const auto gradient_of = [&](const std::vector<Index>& indices) {
    Tensor y;
    {
      autograd::RecordScope record;
      y = index(x, indices);
    }
    autograd::backward(y);
    return autograd::gradient(x).to_vector<float>();
  };
  EXPECT_EQ(gradient_of({Slice{1, {}, {}}, 0}), (Floats{0, 0, 1, 0, 1, 0}));
  EXPECT_EQ(gradient_of({list({2, 0, 2})}), (Floats{1, 1, 0, 0, 2, 2}));
  EXPECT_EQ(gradient_of({list({2, 0, 2}), list({1, 0, 1})}), (Floats{1, 0, 0, 0, 0, 2}));
  EXPECT_EQ(gradient_of({mask({true, false, false, true, false, false}, {3, 2})}),
            (Floats{1, 0, 0, 1, 0, 0}));
}

TEST(Indexing, AssignmentWritesWhatTheIndexReads) {
  const auto assigned = [](const std::vector<Index>& indices, const Tensor& value) {
    const Tensor x = counting({2, 3});
    index_assign(x, indices, value);
    return x.to_vector<float>();
  };
  EXPECT_EQ(assigned({kAll, 1}, Tensor::scalar(9)), (Floats{0, 9, 2, 3, 9, 5}));
  EXPECT_EQ(assigned({1}, Tensor::from(std::vector<std::int64_t>{7, 8, 9}, {3})),
            (Floats{0, 1, 2, 7, 8, 9}));
  EXPECT_EQ(assigned({kAll, list({2, 0})}, counting({2, 2})), (Floats{1, 1, 0, 3, 4, 2}));
  EXPECT_EQ(assigned({list({1, 0}), list({-1, 0})}, Tensor::from(Floats{8, 9}, {2})),
            (Floats{9, 1, 2, 3, 4, 8}));
  EXPECT_EQ(assigned({mask({true, false, true, false, true, false}, {2, 3})}, Tensor::scalar(-1)),
            (Floats{-1, 1, -1, 3, -1, 5}));
  EXPECT_EQ(assigned({0, list({1, 1})}, Tensor::from(Floats{8, 9}, {2})),
            (Floats{0, 9, 2, 3, 4, 5}));
}

TEST(Indexing, AssignmentFromItselfReadsBeforeItWrites) {
  const Tensor x = counting({4});
  index_assign(x, {kAll}, index(x, {Slice{{}, {}, -1}}));
  EXPECT_EQ(x.to_vector<float>(), (Floats{3, 2, 1, 0}));
}

TEST(Indexing, BadItemsAreRefused) {
  const Tensor x = counting({2, 3});
  EXPECT_EQ(message_of([&] { index(x, {2}); }), "index: 2 is out of range for axis 0 of size 2");
  EXPECT_EQ(message_of([&] {
              index(x, {0, 0, 0});
            }),
            "index: 3 axes are indexed, the shape is [2, 3]");
  EXPECT_EQ(message_of([&] {
              index(x, {ellipsis, ellipsis});
            }),
            "index: 2 ellipses, at most one has a meaning");
  EXPECT_EQ(message_of([&] {
              index(x, {mask({true, true, true}, {3})});
            }),
            "index: a mask of shape [3] does not fit [2, 3] at axis 0");
  EXPECT_EQ(message_of([&] { index(x, {mask({true}, {})}); }),
            "index: a mask needs at least one axis");
  EXPECT_EQ(message_of([&] { index(x, {Tensor::zeros({1})}); }),
            "index: a tensor of float32 cannot be an index");
  EXPECT_EQ(message_of([&] {
              index(x, {list({0, 1}), list({0, 3})});
            }),
            "index: index 3 at position 1 is out of range for axis of size 3");
  EXPECT_EQ(message_of([&] {
              index(x, {list({0, 1}), list({0, 1, 2})});
            }),
            "index: shapes [2] and [3] do not broadcast");
  EXPECT_EQ(message_of([&] { index(x, {Slice{0, 1, 0}}); }), "index: a step is 0");
  EXPECT_EQ(message_of([&] { index_assign(x, {0}, Tensor::zeros({2})); }),
            "index_assign: a value of shape [2] does not fit into [3]");
  EXPECT_EQ(message_of([&] {
              index_assign(x, {list({0, 1, 0})}, Tensor::zeros({2, 3}));
            }),
            "index_assign: a value of shape [2, 3] does not fit into [3, 3]");
}

TEST(Indexing, AssignmentThatWouldSpoilAGradientIsRefusedWhileSomethingRecords) {
  const Tensor x = counting({3}), plain = Tensor::zeros({3});
  autograd::attach_grad(x);
  const autograd::RecordScope record;
  const Tensor y = x + x;
  const std::string message =
      "index_assign: float32[3] has a gradient, which would be wrong, since writing is not "
      "recorded: detach() it, or use where(), concat() or scatter()";
  EXPECT_EQ(message_of([&] { index_assign(y, {1}, Tensor::zeros({})); }), message);
  EXPECT_EQ(message_of([&] { index_assign(plain, {kAll}, y); }), message);
  index_assign(plain, {kAll}, y.detach());
  EXPECT_EQ(plain.to_vector<float>(), (Floats{0, 2, 4}));
  index_assign(greater(y, 3.0), {0}, Tensor::zeros({}));  // no gradient goes through a comparison
}

TEST(Indexing, AssignmentIntoALeafIsRefusedWhileSomethingRecords) {
  const Tensor x = counting({3}), y = counting({3});
  autograd::attach_grad(x);
  index_assign(x, {0}, Tensor::full({}, 7.0));
  {
    const autograd::RecordScope record;
    EXPECT_EQ(message_of([&] { index_assign(x, {0}, Tensor::zeros({})); }),
              "index_assign: float32[3] is a leaf that wants a gradient, and ops are recorded: "
              "write before recording, or under a PauseScope");
    index_assign(y, {0}, Tensor::full({}, 8.0));
    const autograd::PauseScope pause;
    index_assign(x, {1}, Tensor::full({}, 9.0));
  }
  EXPECT_EQ(x.to_vector<float>(), (Floats{7, 9, 2}));
  EXPECT_EQ(y.to_vector<float>(), (Floats{8, 1, 2}));
}

}  // namespace
}  // namespace lockstep
