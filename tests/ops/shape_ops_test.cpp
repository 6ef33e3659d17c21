// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/shape_ops.h"

#include <gtest/gtest.h>

#include "lockstep/autograd/autograd.h"
#include "lockstep/ops/catalogue.h"
#include "lockstep/ops/shape_attrs.h"
#include "lockstep/ops/view.h"
#include "tests/message.h"

namespace lockstep {
namespace {

using testing::message_of;
using Floats = std::vector<float>;

Tensor counting(const Shape& shape) {
  Floats values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return Tensor::from(values, shape);
}

bool is_window(const Tensor& y, const Tensor& x) { return y.storage() == x.storage(); }

TEST(ShapeOps, WindowsShareMemory) {
  const Tensor x = counting({2, 3, 4});
  EXPECT_TRUE(is_window(reshape(x, {6, 4}), x));
  EXPECT_TRUE(is_window(transpose(x), x));
  EXPECT_TRUE(is_window(expand(x, {5, 2, 3, 4}), x));
  EXPECT_TRUE(is_window(squeeze(expand_dims(x, 1)), x));
  EXPECT_TRUE(is_window(slice(x, {1}, {2}), x));
  EXPECT_TRUE(is_window(flip(x, {0, 2}), x));
  EXPECT_TRUE(is_window(stop_gradient(x), x));
}

TEST(ShapeOps, WindowsOfWindowsStartWhereTheyShould) {
  const Tensor x = counting({4, 5});
  const Tensor y = flip(slice(x, {1, 1}, {4, 5}, {1, 2}), {0});
  EXPECT_TRUE(is_window(y, x));
  EXPECT_EQ(y.to_vector<float>(), (Floats{16, 18, 11, 13, 6, 8}));
  EXPECT_EQ(transpose(y).to_vector<float>(), (Floats{16, 11, 6, 18, 13, 8}));
}

TEST(ShapeOps, ReshapeOfAWindowIsAWindowWhereStridesAllow) {
  const Tensor x = counting({4, 6});
  const Tensor columns = slice(x, {0, 0}, {4, 4});
  EXPECT_TRUE(is_window(reshape(columns, {2, 2, 2, 2}), x));
  EXPECT_TRUE(is_window(reshape(columns, {4, 1, 4, 1}), x));
  EXPECT_FALSE(is_window(reshape(columns, {16}), x));
  EXPECT_FALSE(is_window(reshape(transpose(x), {24}), x));
  EXPECT_EQ(reshape(transpose(x), {24}).to_vector<float>(), transpose(x).to_vector<float>());
  EXPECT_EQ(reshape(expand(counting({3}), {2, 2, 3}), {4, 3}).strides(), (Strides{0, 1}));
}

TEST(ShapeOps, ACompilerCanAskForAliases) {
  const TensorInfo x{{2, 3}, DType::float32, {}};
  EXPECT_EQ(view_of_dense(get_op("transpose"), x, Attrs::of(TransposeAttrs{}))->strides,
            (Strides{1, 3}));
  EXPECT_FALSE(view_of_dense(get_op("concat"), x, Attrs::of(ConcatAttrs{})));
}

TEST(ShapeOps, CompositionsMeanWhatTheySay) {
  const Tensor x = counting({2, 3, 4});
  EXPECT_EQ(flatten(x).shape(), (Shape{2, 12}));
  EXPECT_EQ(flatten(x, 0).shape(), (Shape{24}));
  EXPECT_EQ(flatten(counting({3}), 1).shape(), (Shape{3, 1}));
  EXPECT_EQ(flatten(counting({0, 3})).shape(), (Shape{0, 3}));
  EXPECT_EQ(swap_axes(x, 0, -1).shape(), (Shape{4, 3, 2}));
  EXPECT_EQ(slice_axis(x, 1, -1, 3).to_vector<float>(), (Floats{8, 9, 10, 11, 20, 21, 22, 23}));
  EXPECT_EQ(stack({counting({2}), counting({2})}, -1).to_vector<float>(), (Floats{0, 0, 1, 1}));
  EXPECT_EQ(repeat(counting({2, 2}), 2).to_vector<float>(), (Floats{0, 0, 1, 1, 2, 2, 3, 3}));
  const std::vector<Tensor> parts = split(x, 3, 1);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[2].to_vector<float>(), (Floats{8, 9, 10, 11, 20, 21, 22, 23}));
}

TEST(ShapeOps, StopGradientStopsIt) {
  const Tensor x = counting({3});
  autograd::attach_grad(x);
  Tensor y;
  {
    autograd::RecordScope record;
    y = concat({stop_gradient(x), flip(x, {0})});
  }
  const Tensor weights = counting({6});
  autograd::backward(std::span(&y, 1), std::span(&weights, 1));
  EXPECT_EQ(autograd::gradient(x).to_vector<float>(), (Floats{5, 4, 3}));
}

TEST(ShapeOps, AnUnusedPartOfASplitGetsAZeroGradient) {
  const Tensor x = counting({4});
  autograd::attach_grad(x);
  Tensor y;
  {
    autograd::RecordScope record;
    y = split(x, 2)[1];
  }
  autograd::backward(y);
  EXPECT_EQ(autograd::gradient(x).to_vector<float>(), (Floats{0, 0, 1, 1}));
}

TEST(ShapeOps, ReshapeRefusesWhatDoesNotFit) {
  const Tensor x = counting({2, 3});
  EXPECT_EQ(message_of([&] {
              reshape(x, {4, 2});
            }),
            "reshape: shape [2, 3] has 6 elements, they do not fit into [4, 2]");
  EXPECT_EQ(message_of([&] {
              reshape(x, {4, -1});
            }),
            "reshape: shape [2, 3] has 6 elements, they do not fit into [4, -1]");
  EXPECT_EQ(message_of([&] {
              reshape(x, {-1, -1});
            }),
            "reshape: shape [-1, -1] may have one -1 and no other negative size");
  EXPECT_EQ(message_of([] {
              reshape(Tensor::zeros({0}), {0, -1});
            }),
            "reshape: shape [0] has 0 elements, they do not fit into [0, -1]");
}

TEST(ShapeOps, AxesMustBeThere) {
  const Tensor x = counting({2, 3});
  EXPECT_EQ(message_of([&] { transpose(x, {0}); }),
            "transpose: axes [0] are not a permutation of 2 dimensions");
  EXPECT_EQ(message_of([&] {
              transpose(x, {1, 1});
            }),
            "transpose: axes [1, 1] are not a permutation of 2 dimensions");
  EXPECT_EQ(message_of([&] {
              transpose(x, {0, 2});
            }),
            "transpose: axis 2 is out of range for 2 dimensions");
  EXPECT_EQ(message_of([&] { squeeze(x, {1}); }),
            "squeeze: axis 1 of shape [2, 3] has size 3, not 1");
  EXPECT_EQ(message_of([&] { expand_dims(x, 4); }),
            "expand_dims: axis 4 is out of range for 3 dimensions");
  EXPECT_EQ(message_of([&] { flip(x, {0, 0}); }), "flip: an axis is named twice");
  EXPECT_EQ(message_of([&] { swap_axes(x, 0, 2); }),
            "swap_axes: axis 2 is out of range for 2 dimensions");
  EXPECT_EQ(message_of([&] { flatten(x, 3); }), "flatten: axis 3 is out of range for 2 dimensions");
}

TEST(ShapeOps, ExpandRefusesOtherSizes) {
  EXPECT_EQ(message_of([] { expand(counting({2}), {3}); }),
            "expand: shape [2] does not broadcast to [3]");
  EXPECT_EQ(message_of([] {
              expand(counting({2, 1}), {2});
            }),
            "expand: shape [2, 1] does not broadcast to [2]");
  EXPECT_EQ(message_of([] { expand(counting({1}), {-1}); }),
            "expand: shape [-1] has a negative size");
}

TEST(ShapeOps, SliceRefusesListsThatDoNotBelongTogether) {
  const Tensor x = counting({2, 3});
  EXPECT_EQ(message_of([&] {
              slice(x, {0}, {1, 2});
            }),
            "slice: 1 begins, 2 ends and 0 steps do not belong together");
  EXPECT_EQ(message_of([&] {
              slice(x, {0, 0, 0}, {1, 1, 1});
            }),
            "slice: 3 ranges, the shape is [2, 3]");
  EXPECT_EQ(message_of([&] { slice(x, {0}, {1}, {0}); }), "slice: a step is 0");
}

TEST(ShapeOps, ConcatRefusesPartsThatDoNotFit) {
  EXPECT_EQ(message_of([] {
              concat({counting({2, 3}), counting({3, 2})}, 0);
            }),
            "concat: parts have shapes [2, 3] and [3, 2], they may differ along axis 0 only");
  EXPECT_EQ(message_of([] {
              concat({counting({2}), Tensor::zeros({2}, DType::int8)});
            }),
            "concat: parts are float32 and int8");
  EXPECT_EQ(message_of([] { concat({counting({})}); }),
            "concat: scalars have no axis to join along");
  EXPECT_EQ(message_of([] { concat({}); }), "concat: takes at least 1 inputs, got 0");
  EXPECT_EQ(message_of([] {
              stack({counting({2}), counting({3})});
            }),
            "stack: parts have shapes [2] and [3]");
}

TEST(ShapeOps, SplitRefusesSizesThatDoNotAddUp) {
  const Tensor x = counting({5, 2});
  EXPECT_EQ(message_of([&] { split(x, 2); }),
            "split: axis 0 of size 5 does not split into 2 equal parts");
  EXPECT_EQ(message_of([&] {
              split_sizes(x, {2, 2});
            }),
            "split: sizes [2, 2] add up to 4, axis 0 has size 5");
  EXPECT_EQ(message_of([&] { split_sizes(x, {6, -1}); }), "split: size -1 is negative");
  EXPECT_EQ(message_of([&] { split_sizes(x, {}); }), "split: no sizes are given");
}

TEST(ShapeOps, PadRefusesWidthsThatMeanNothing) {
  const Tensor x = counting({2});
  EXPECT_EQ(message_of([&] { pad(x, {1}); }), "pad: 1 widths, shape [2] needs 2");
  EXPECT_EQ(message_of([&] { pad(x, {1, -1}); }), "pad: width -1 is negative");
  EXPECT_EQ(message_of([&] {
              pad(x, {1, 1}, 0.0, "wrap");
            }),
            "pad: mode 'wrap' is not constant, edge, reflect or circular");
  EXPECT_EQ(message_of([&] {
              pad(x, {2, 0}, 0.0, "reflect");
            }),
            "pad: reflecting 2 elements needs more than axis 0 of size 2 has");
  EXPECT_EQ(message_of([] {
              pad(counting({0}), {1, 0}, 0.0, "edge");
            }),
            "pad: axis 0 of size 0 has no edge");
}

TEST(ShapeOps, RepeatsAreNotNegativeAndNotTooMany) {
  const Tensor x = counting({2});
  EXPECT_EQ(message_of([&] { tile(x, {-1}); }), "tile: -1 repeats");
  EXPECT_EQ(message_of([&] { repeat(x, -2, 0); }), "repeat: -2 repeats");
  EXPECT_EQ(message_of([&] { tile(x, {std::int64_t{1} << 62}); }),
            "tile: 2 times 4611686018427387904 are too many elements");
}

}  // namespace
}  // namespace lockstep
