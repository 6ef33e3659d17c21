// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tensor/tensor.h"

#include <gtest/gtest.h>

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

TEST(Tensor, IsAHandleOnSharedMemory) {
  const Tensor x = Tensor::zeros({2});
  const Tensor same = x;
  same.data<float>()[1] = 5.0f;
  EXPECT_TRUE(same.same_as(x));
  EXPECT_EQ(x.to_vector<float>(), (Floats{0, 5}));
}

TEST(Tensor, DefaultIsUndefined) {
  const Tensor x;
  EXPECT_FALSE(x.defined());
  EXPECT_FALSE(x.is_symbolic());
  EXPECT_EQ(x.str(), "(undefined)");
}

TEST(Tensor, AnUndefinedOneCannotBeReadCopiedOrWritten) {
  const Tensor none;
  const Tensor x = Tensor::zeros({2});
  const std::string message = "tensor: undefined";
  EXPECT_EQ(message_of([&] { none.shape(0); }), message);
  EXPECT_EQ(message_of([&] { none.raw(); }), message);
  EXPECT_EQ(message_of([&] { none.item(); }), message);
  EXPECT_EQ(message_of([&] { none.to_vector<float>(); }), message);
  EXPECT_EQ(message_of([&] { none.contiguous(); }), message);
  EXPECT_EQ(message_of([&] { none.copy(); }), message);
  EXPECT_EQ(message_of([&] { none.assign(x); }), message);
  EXPECT_EQ(message_of([&] { x.assign(none); }), message);
  EXPECT_EQ(message_of([&] { none.to(cpu(1)); }), message);
  EXPECT_EQ(message_of([&] { none.detach(); }), message);
}

TEST(Tensor, AssignsAWindowOnItsOwnMemoryAsIfCopiedFirst) {
  const Tensor line = counting({4});
  line.assign(line.window({4}, {-1}, 3));
  EXPECT_EQ(line.to_vector<int>(), (std::vector<int>{3, 2, 1, 0}));
  const Tensor square = counting({2, 2});
  square.assign(square.window({2, 2}, {1, 2}, 0));
  EXPECT_EQ(square.to_vector<int>(), (std::vector<int>{0, 2, 1, 3}));
  const Tensor shifted = counting({5});
  shifted.window({4}, {1}, 1).assign(shifted.window({4}, {1}, 0));
  EXPECT_EQ(shifted.to_vector<int>(), (std::vector<int>{0, 0, 1, 2, 3}));
  const Tensor last = counting({3});
  last.assign(last.window({1}, {1}, 1));
  EXPECT_EQ(last.to_vector<int>(), (std::vector<int>{1, 1, 1}));
}

TEST(Tensor, IsMadeOfValuesZerosOrOneNumber) {
  EXPECT_EQ(counting({2, 2}).to_vector<int>(), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(Tensor::zeros({2}, DType::int8).to_vector<int>(), (std::vector<int>{0, 0}));
  EXPECT_EQ(Tensor::full({2}, 1.5, DType::bfloat16).to_vector<float>(), (Floats{1.5, 1.5}));
  EXPECT_EQ(Tensor::scalar(-3, DType::int64).item(), -3.0);
  EXPECT_EQ(Tensor::from(std::vector<bool>{true, false}, {2}).to_vector<int>(),
            (std::vector<int>{1, 0}));
}

TEST(Tensor, ValuesMustFillTheShape) {
  EXPECT_EQ(message_of([] {
              Tensor::from(Floats{1, 2, 3}, {2, 2});
            }),
            "tensor: 3 values do not fill shape [2, 2]");
}

TEST(Tensor, ANegativeSizeIsRefused) {
  EXPECT_EQ(message_of([] {
              Tensor::empty({2, -1});
            }),
            "tensor: shape [2, -1] has a negative size");
}

TEST(Tensor, AShapeBeyondAllMemoryIsRefused) {
  EXPECT_EQ(message_of<OutOfMemory>([] {
              Tensor::empty({1ll << 40, 1ll << 40});
            }),
            "memory: shape [1099511627776, 1099511627776] of float32 does not fit any memory");
}

TEST(Tensor, MoreThanEightAxesAreRefused) {
  EXPECT_EQ(message_of([] { Tensor::empty(Shape(std::vector<std::int64_t>(9, 1))); }),
            "shape: 9 dimensions, at most 8 are supported");
}

TEST(Tensor, SizeZeroHoldsNothing) {
  const Tensor x = Tensor::empty({0, 3});
  EXPECT_EQ(x.numel(), 0);
  EXPECT_TRUE(x.is_contiguous());
  EXPECT_TRUE(x.to_vector<float>().empty());
}

TEST(Tensor, DataIsReadAsItsOwnTypeOnly) {
  EXPECT_EQ(message_of([] { Tensor::zeros({1}).data<double>(); }),
            "tensor: asked for float64 data of a float32 tensor");
}

TEST(Tensor, ItemNeedsOneElement) {
  EXPECT_EQ(counting({1, 1}).item(), 0.0);
  EXPECT_EQ(message_of([] {
              Tensor::zeros({2, 1}).item();
            }),
            "item: needs exactly one element, the shape is [2, 1]");
}

TEST(Tensor, AnAxisOfTheShapeMayCountFromTheEnd) {
  EXPECT_EQ(counting({2, 3}).shape(-1), 3);
  EXPECT_EQ(message_of([] { Tensor::zeros({2}).shape(1); }),
            "shape: axis 1 is out of range for 1 dimensions");
}

TEST(Tensor, AWindowSeesTheSameMemory) {
  const Tensor x = counting({2, 3});
  const Tensor column = x.window({2}, {3}, 1);
  EXPECT_EQ(column.to_vector<float>(), (Floats{1, 4}));
  column.assign(Tensor::scalar(9));
  EXPECT_EQ(x.to_vector<float>(), (Floats{0, 9, 2, 3, 9, 5}));
}

TEST(Tensor, ContiguousIsItselfWhenDenseAndACopyOtherwise) {
  const Tensor x = counting({2, 3});
  EXPECT_TRUE(x.contiguous().same_as(x));
  const Tensor turned = x.window({3, 2}, {1, 3}, 0);
  const Tensor dense = turned.contiguous();
  EXPECT_TRUE(dense.is_contiguous());
  EXPECT_NE(dense.storage(), x.storage());
  EXPECT_EQ(dense.to_vector<float>(), (Floats{0, 3, 1, 4, 2, 5}));
}

TEST(Tensor, ACopyHasMemoryOfItsOwn) {
  const Tensor x = counting({2});
  const Tensor y = x.copy();
  y.data<float>()[0] = 7;
  EXPECT_EQ(x.to_vector<float>(), (Floats{0, 1}));
}

TEST(Tensor, AssignBroadcastsAndConverts) {
  const Tensor x = Tensor::zeros({2, 3});
  x.assign(Tensor::from(std::vector<std::int32_t>{4, 5, 6}, {3}));
  EXPECT_EQ(x.to_vector<float>(), (Floats{4, 5, 6, 4, 5, 6}));
}

TEST(Tensor, AssignRefusesWhatDoesNotFit) {
  const Tensor x = Tensor::zeros({2});
  EXPECT_EQ(message_of([&] {
              x.assign(Tensor::zeros({3, 2}));
            }),
            "assign: a value of shape [3, 2] does not fit into [2]");
  EXPECT_EQ(message_of([&] { x.assign(Tensor::zeros({3})); }),
            "assign: shapes [2] and [3] do not broadcast");
}

TEST(Tensor, MovesBetweenDevicesByCopy) {
  const Tensor x = counting({3});
  EXPECT_TRUE(x.to({}).same_as(x));
  const Tensor moved = x.to(cpu(1));
  EXPECT_EQ(moved.device(), cpu(1));
  EXPECT_EQ(moved.to_vector<float>(), x.to_vector<float>());
}

TEST(Tensor, DetachKeepsTheMemory) {
  const Tensor x = counting({2});
  EXPECT_FALSE(x.detach().same_as(x));
  EXPECT_EQ(x.detach().storage(), x.storage());
}

TEST(Tensor, InfoSaysDtypeAndShape) {
  EXPECT_EQ(counting({2, 3}).info().str(), "float32[2, 3]");
  EXPECT_EQ(Tensor::scalar(1, DType::int8).info().str(), "int8[]");
}

TEST(Tensor, RefusesEveryQuestionWhenItIsUndefined) {
  const Tensor none;
  EXPECT_FALSE(none.defined());
  EXPECT_THROW(none.rank(), InvalidArgument);
  EXPECT_THROW(none.numel(), InvalidArgument);
  EXPECT_THROW(none.info(), InvalidArgument);
  EXPECT_THROW(none.data<float>(), InvalidArgument);
  EXPECT_THROW(none.to_vector<float>(), InvalidArgument);
}

}  // namespace
}  // namespace lockstep
