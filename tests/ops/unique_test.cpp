// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/unique.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lockstep/graph/trace.h"
#include "lockstep/ops/index_ops.h"
#include "lockstep/ops/shape_ops.h"
#include "tests/tensor/test_device.h"

namespace lockstep {
namespace {

using Longs = std::vector<std::int64_t>;

TEST(Unique, GivesSortedValuesTheirPlacesAndCounts) {
  const Tensor x = Tensor::from(std::vector<float>{3, -1, 3, 0, -1, 3}, {2, 3});
  const auto [values, inverse, counts] = unique(x);
  EXPECT_EQ(values.to_vector<float>(), (std::vector<float>{-1, 0, 3}));
  EXPECT_EQ(inverse.shape(), (Shape{2, 3}));
  EXPECT_EQ(inverse.to_vector<std::int64_t>(), (Longs{2, 0, 2, 1, 0, 2}));
  EXPECT_EQ(counts.to_vector<std::int64_t>(), (Longs{2, 1, 3}));
  EXPECT_EQ(take(values, inverse).to_vector<float>(), x.to_vector<float>());
}

TEST(Unique, KeepsEveryDtype) {
  for (int code = 0; code < kDTypeCount; ++code) {
    const auto dtype = static_cast<DType>(code);
    const Tensor x = Tensor::empty({4}, dtype);
    x.assign(Tensor::from(Longs{1, 0, 1, 1}, {4}));
    const auto [values, inverse, counts] = unique(x);
    EXPECT_EQ(values.dtype(), dtype);
    EXPECT_EQ(values.to_vector<double>(), (std::vector<double>{0, 1})) << name_of(dtype);
    EXPECT_EQ(counts.to_vector<std::int64_t>(), (Longs{1, 3}));
  }
}

TEST(Unique, TellsLargeIntegersApart) {
  const std::int64_t large = (std::int64_t{1} << 60);
  EXPECT_EQ(unique(Tensor::from(Longs{large + 1, large}, {2})).values.to_vector<std::int64_t>(),
            (Longs{large, large + 1}));
}

TEST(Unique, PutsNansLastEachForItself) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto [values, inverse, counts] =
      unique(Tensor::from(std::vector<double>{nan, 1, nan, -2}, {4}));
  EXPECT_EQ(values.numel(), 4);
  EXPECT_EQ(inverse.to_vector<std::int64_t>(), (Longs{2, 1, 3, 0}));
  EXPECT_TRUE(std::isnan(values.to_vector<double>()[3]));
}

TEST(Unique, OfNothingIsNothing) {
  const auto [values, inverse, counts] = unique(Tensor::zeros({0, 3}));
  EXPECT_EQ(values.shape(), (Shape{0}));
  EXPECT_EQ(inverse.shape(), (Shape{0, 3}));
  EXPECT_EQ(nonzero(Tensor::zeros({0, 3})).shape(), (Shape{0, 2}));
}

TEST(Nonzero, GivesThePositionsInRowMajorOrder) {
  const Tensor x = Tensor::from(std::vector<float>{0, 2, 0, -1, 0, 0.5}, {2, 3});
  const Tensor places = nonzero(x);
  EXPECT_EQ(places.shape(), (Shape{3, 2}));
  EXPECT_EQ(places.to_vector<std::int64_t>(), (Longs{0, 1, 1, 0, 1, 2}));
  EXPECT_EQ(nonzero(transpose(x)).to_vector<std::int64_t>(), (Longs{0, 1, 1, 0, 2, 1}));
  EXPECT_EQ(nonzero(Tensor::scalar(3)).shape(), (Shape{1, 0}));
}

TEST(Nonzero, StaysOnTheDevice) {
  const auto device = testing::TestDevice::make();
  const Tensor x = Tensor::from(std::vector<float>{0, 2, 2}, {3}).to(device->device());
  EXPECT_EQ(nonzero(x).device(), device->device());
  EXPECT_EQ(unique(x).values.to(cpu()).to_vector<float>(), (std::vector<float>{0, 2}));
}

// What a graph would have to know before it runs.
TEST(Nonzero, AndUniqueCannotBeTraced) {
  const auto refusal = [](const TensorFunction& function) {
    try {
      trace(function, {{{3}, DType::float32, {}}});
    } catch (const Unsupported& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(
      refusal([](const auto& in) { return std::vector{nonzero(in[0])}; }),
      "nonzero: the result's shape depends on what the input contains, so it cannot be traced "
      "into a graph");
  EXPECT_EQ(refusal([](const auto& in) { return std::vector{unique(in[0]).values}; }),
            "unique: the result's shape depends on what the input contains, so it cannot be traced "
            "into a graph");
}

}  // namespace
}  // namespace lockstep
