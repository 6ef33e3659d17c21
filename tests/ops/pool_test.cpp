// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/pool.h"

#include <gtest/gtest.h>

#include <cmath>
#include <dnnl.hpp>
#include <limits>

#include "lockstep/ops/catalogue.h"
#include "lockstep/ops/cpu/dnnl_common.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/pool_attrs.h"
#include "tests/ops/calls.h"
#include "tests/ops/layout_run.h"
#include "tests/ops/op_cases.h"

namespace lockstep::testing {
namespace {

TEST(Pool, RefusesAnInputWithoutSpatialAxes) {
  EXPECT_EQ(
      message_of([] {
        max_pool(Tensor::zeros({2, 3}), {.kernel = {2}});
      }),
      "max_pool: input has shape [2, 3], expected [N, C, spatial...] with 1 to 3 spatial axes");
  EXPECT_EQ(message_of([] {
              global_avg_pool(Tensor::zeros({2, 3}));
            }),
            "global_avg_pool: input has shape [2, 3], expected [N, C, spatial...] with 1 to 3 "
            "spatial axes");
}

TEST(Pool, RefusesIntegers) {
  EXPECT_EQ(message_of([] {
              avg_pool(Tensor::zeros({1, 1, 4}, DType::int64), {.kernel = {2}});
            }),
            "avg_pool: input is int64, expected a floating dtype");
}

TEST(Pool, RefusesListsThatDoNotFit) {
  const Tensor x = Tensor::zeros({1, 1, 5, 5});
  EXPECT_EQ(message_of([&] { max_pool(x, {}); }),
            "max_pool: kernel has 0 entries, expected 1 or 2");
  EXPECT_EQ(message_of([&] {
              max_pool(x, {.kernel = {2, 2, 2}});
            }),
            "max_pool: kernel has 3 entries, expected 1 or 2");
  EXPECT_EQ(message_of([&] { avg_pool(x, {.kernel = {0}}); }),
            "avg_pool: kernel is [0], expected at least 1");
  EXPECT_EQ(message_of([&] {
              avg_pool(x, {.kernel = {2}, .stride = {1, 0}});
            }),
            "avg_pool: stride is [1, 0], expected at least 1");
  EXPECT_EQ(message_of([&] { avg_pool(x, {.kernel = {2}, .padding = {-1}}); }),
            "avg_pool: padding is [-1], expected at least 0");
}

TEST(Pool, RefusesWindowsThatWouldBePaddingOnly) {
  EXPECT_EQ(message_of([] {
              max_pool(Tensor::zeros({1, 1, 5, 5}), {.kernel = {3, 2}, .padding = {2}});
            }),
            "max_pool: padding is 2 along axis 3, expected less than kernel 2");
}

TEST(Pool, RefusesAKernelLargerThanThePaddedInput) {
  EXPECT_EQ(message_of([] {
              avg_pool(Tensor::zeros({1, 1, 3}), {.kernel = {6}, .padding = {1}});
            }),
            "avg_pool: kernel spans 6 along axis 2, padded input has 5");
}

TEST(AdaptivePool, RefusesOutputSizesThatDoNotFit) {
  EXPECT_EQ(message_of([] {
              adaptive_avg_pool(Tensor::zeros({1, 1, 3, 3}), {});
            }),
            "adaptive_avg_pool: output_size has 0 entries, expected 1 or 2");
  EXPECT_EQ(message_of([] {
              adaptive_avg_pool(Tensor::zeros({1, 1, 3, 3}), {0});
            }),
            "adaptive_avg_pool: output_size is [0], expected at least 1");
  EXPECT_EQ(message_of([] {
              adaptive_avg_pool(Tensor::zeros({1, 1, 3, 3}), {1, 1, 1});
            }),
            "adaptive_avg_pool: output_size has 3 entries, expected 1 or 2");
}

TEST(AdaptivePool, EqualsAnAverageWhereSizesDivide) {
  const Tensor x = random_floats({2, 3, 6, 8}, 1);
  EXPECT_EQ(adaptive_avg_pool(x, {3, 2}).to_vector<float>(),
            avg_pool(x, {.kernel = {2, 4}}).to_vector<float>());
}

TEST(MaxPoolBackward, RefusesAWorkspaceOfAnotherPool) {
  PoolBackwardAttrs attrs;
  attrs.kernel = {2};
  attrs.input_size = {4};
  const std::vector<Tensor> wide{Tensor::zeros({1, 1, 2}), Tensor::zeros({1, 1, 2}, DType::int32)};
  EXPECT_EQ(message_of([&] { apply(get_op("max_pool_backward"), wide, Attrs::of(attrs)); }),
            "max_pool_backward: workspace is int32[1, 1, 2], expected uint8[1, 1, 2]");
  attrs.input_size = {6};
  EXPECT_EQ(
      message_of([&] { apply(get_op("max_pool_backward"), wide, Attrs::of(attrs)); }),
      "max_pool_backward: an input of size [6] gives an output of size [3], gradient has [2]");
}

TEST(MaxPoolBackward, IgnoresPositionsOutsideTheWindow) {
  PoolBackwardAttrs attrs;
  attrs.kernel = {2};
  attrs.input_size = {4};
  for (const DType dtype : {DType::float32, DType::float64}) {
    const std::vector<Tensor> inputs{Tensor::full({1, 1, 2}, 1.0, dtype),
                                     Tensor::full({1, 1, 2}, 200.0, DType::uint8)};
    const auto dx = apply(get_op("max_pool_backward"), inputs, Attrs::of(attrs));
    EXPECT_EQ(dx[0].to_vector<double>(), std::vector<double>(4, 0.0));
  }
}

TEST(MaxPool, KeepsNanAndMinusInfinity) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16}) {
    const Tensor x = Tensor::full({1, 1, 2, 4}, -inf, dtype);
    x.assign(Tensor::from(std::vector<double>{1, nan, -inf, -inf, 2, 3, -inf, -inf}, {1, 1, 2, 4}));
    const auto y = max_pool(x, {.kernel = {2}}).to_vector<double>();
    EXPECT_TRUE(std::isnan(y[0]));
    EXPECT_EQ(y[1], -inf);
  }
}

TEST(MaxPool, TakesTheFirstOfEquals) {
  PoolAttrs attrs;
  attrs.kernel = {2};
  for (const DType dtype : {DType::float32, DType::float64}) {
    const std::vector<Tensor> inputs{Tensor::full({1, 16, 4, 4}, 3.0, dtype)};
    const auto out = apply(get_op("max_pool"), inputs, Attrs::of(attrs));
    EXPECT_EQ(out[1].to_vector<int>(), std::vector<int>(64, 0));
  }
}

// Where the first of the largest of each of 3 x 4 windows is in its plane of 7 x 9; a NaN is
// largest.
std::vector<std::int64_t> first_largest(const std::vector<double>& x) {
  std::vector<std::int64_t> found;
  for (std::int64_t o = 0; o < 12; ++o) {
    std::int64_t best = -1;
    for (std::int64_t h = o / 4 * 7 / 3; h < (o / 4 * 7 + 7 + 2) / 3; ++h)
      for (std::int64_t w = o % 4 * 9 / 4; w < (o % 4 * 9 + 9 + 3) / 4; ++w) {
        const double value = x[static_cast<std::size_t>(h * 9 + w)];
        const double most = best < 0 ? 0.0 : x[static_cast<std::size_t>(best)];
        if (best < 0 || (!std::isnan(most) && !(value <= most))) best = h * 9 + w;
      }
    found.push_back(best);
  }
  return found;
}

TEST(AdaptiveMaxPool, TakesTheFirstOfEqualsAndOfNans) {
  const double values[] = {-std::numeric_limits<double>::infinity(), -0.0, 0.0, 1.0, std::nan("")};
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    std::vector<double> x =
        random_tensor({63}, seed, 0.0, seed % 2 == 0 ? 4.0 : 5.0).to_vector<double>();
    for (double& value : x) value = values[static_cast<std::size_t>(value)];
    const auto places = first_largest(x);
    for (const DType dtype : {DType::float32, DType::float64}) {
      const Tensor plane = Tensor::zeros({1, 1, 7, 9}, dtype);
      plane.assign(Tensor::from(x, {1, 1, 7, 9}));
      const auto out = apply(get_op("adaptive_max_pool"), std::vector{plane},
                             Attrs::of(AdaptivePoolAttrs{{3, 4}}));
      EXPECT_EQ(out[1].to_vector<std::int64_t>(), places) << "seed " << seed;
      const auto y = out[0].to_vector<double>();
      for (std::size_t i = 0; i < y.size(); ++i) {
        const double want = x[static_cast<std::size_t>(places[i])];
        EXPECT_TRUE(y[i] == want || (std::isnan(y[i]) && std::isnan(want))) << i;
      }
    }
  }
}

TEST(GlobalPool, CoversEverything) {
  const Tensor x = Tensor::from(std::vector<float>{1, 2, 3, 6, -1, -2, -3, -2}, {1, 2, 2, 2});
  EXPECT_EQ(global_avg_pool(x).to_vector<float>(), (std::vector<float>{3, -2}));
  EXPECT_EQ(global_max_pool(x).to_vector<float>(), (std::vector<float>{6, -1}));
  EXPECT_EQ(global_avg_pool(x).shape(), (Shape{1, 2, 1, 1}));
}

Layout blocked(const Shape& shape, DType dtype, dnnl::memory::format_tag tag) {
  return kernels::layout_of({kernels::dnnl_dims(shape), *kernels::dnnl_type(dtype), tag});
}

class PoolInLayouts : public ::testing::Test {
 protected:
  static constexpr auto kTag = dnnl::memory::format_tag::aBcd16b;
  const Shape large_{2, 19, 6, 6}, small_{2, 19, 3, 3};
  const Tensor x_ = random_floats(large_, 1), dy_ = random_floats(small_, 2);

  static Attrs forward() {
    PoolAttrs attrs;
    attrs.kernel = {2};
    return Attrs::of(attrs);
  }
  static Attrs backward() {
    PoolBackwardAttrs attrs;
    attrs.kernel = {2};
    attrs.input_size = {6, 6};
    return Attrs::of(attrs);
  }
};

TEST_F(PoolInLayouts, MaxStaysInTheLayoutOfItsInput) {
  const Layout large = blocked(large_, DType::float32, kTag);
  const LayoutRun run = run_in_layouts(get_op("max_pool"), {x_}, forward(), {.offered = {large}});
  const auto eager = apply(get_op("max_pool"), std::vector{x_}, forward());
  EXPECT_EQ(run.input_layouts[0], large);
  EXPECT_EQ(run.output_layouts[0].str(), "aBcd16b");
  EXPECT_EQ(run.output_layouts[1].str(), "aBcd16b");
  EXPECT_EQ(run.outputs[0].to_vector<float>(), eager[0].to_vector<float>());
  EXPECT_EQ(run.outputs[1].to_vector<int>(), eager[1].to_vector<int>());
}

TEST_F(PoolInLayouts, MaxWithoutAReaderOfItsWorkspaceLeavesItAlone) {
  const Layout large = blocked(large_, DType::float32, kTag);
  const LayoutRun run = run_in_layouts(get_op("max_pool"), {x_}, forward(),
                                       {.offered = {large}, .unused = {false, true}});
  EXPECT_TRUE(run.output_layouts[1].is_plain());
  EXPECT_EQ(run.outputs[0].to_vector<float>(), max_pool(x_, {.kernel = {2}}).to_vector<float>());
}

TEST_F(PoolInLayouts, MaxBackwardFollowsItsWorkspace) {
  const Tensor workspace = apply(get_op("max_pool"), std::vector{x_}, forward())[1];
  const Layout layout = blocked(small_, DType::uint8, kTag);
  const LayoutRun run = run_in_layouts(get_op("max_pool_backward"), {dy_, workspace}, backward(),
                                       {.offered = {{}, layout}});
  EXPECT_EQ(run.input_layouts[0].str(), "aBcd16b");
  EXPECT_EQ(run.input_layouts[1], layout);
  EXPECT_EQ(run.output_layouts[0], blocked(large_, DType::float32, kTag));
  EXPECT_EQ(run.outputs[0].to_vector<float>(),
            apply(get_op("max_pool_backward"), std::vector{dy_, workspace}, backward())[0]
                .to_vector<float>());
}

Tensor as_double(const Tensor& x) {
  const Tensor wide = Tensor::empty(x.shape(), DType::float64);
  wide.assign(x);
  return wide;
}

// The blocked kernels and the reference on whole numbers, which no order of sums can change.
void expect_blocks_equal_reference(const PoolWindow& window, dnnl::memory::format_tag tag) {
  const Tensor x = Tensor::empty({2, 19, 7, 9});
  for (std::int64_t i = 0; i < x.numel(); ++i)
    x.data<float>()[i] = static_cast<float>(i * 167 % 256) - 200.0f;
  const Attrs attrs = Attrs::of(PoolAttrs{window});
  const auto want = apply(get_op("max_pool"), std::vector{as_double(x)}, attrs);
  const LayoutRun run = run_in_layouts(get_op("max_pool"), {x}, attrs,
                                       {.offered = {blocked(x.shape(), DType::float32, tag)}});
  EXPECT_EQ(run.kernel, "blocks");
  EXPECT_EQ(run.outputs[0].to_vector<double>(), want[0].to_vector<double>());
  EXPECT_EQ(run.outputs[1].to_vector<int>(), want[1].to_vector<int>());

  const Tensor& dy = run.outputs[0];
  const Attrs back = Attrs::of(PoolBackwardAttrs{window, {7, 9}});
  const LayoutRun backward =
      run_in_layouts(get_op("max_pool_backward"), {dy, want[1]}, back,
                     {.offered = {{}, blocked(dy.shape(), DType::uint8, tag)}});
  EXPECT_EQ(backward.kernel, "blocks");
  EXPECT_EQ(backward.outputs[0].to_vector<double>(),
            apply(get_op("max_pool_backward"), std::vector{as_double(dy), want[1]}, back)[0]
                .to_vector<double>());
}

TEST(BlockedMaxPool, EqualsTheReferenceForWindowsOfEveryKind) {
  const PoolWindow windows[] = {{.kernel = {2}},
                                {.kernel = {3}, .stride = {2}, .padding = {1}},
                                {.kernel = {2}, .stride = {3}},
                                {.kernel = {2, 3}, .stride = {1, 2}, .ceil_mode = true},
                                {.kernel = {7, 9}}};
  for (const PoolWindow& window : windows)
    for (const auto tag : {dnnl::memory::format_tag::aBcd16b, dnnl::memory::format_tag::aBcd8b})
      expect_blocks_equal_reference(window, tag);
}

TEST(BlockedMaxPool, KeepsTheBitsOfBfloat16) {
  const Tensor x = random_floats({2, 19, 6, 6}, 5),
               half = Tensor::empty({2, 19, 6, 6}, DType::bfloat16);
  half.assign(x);
  PoolAttrs attrs;
  attrs.kernel = {2};
  const LayoutRun run = run_in_layouts(
      get_op("max_pool"), {half}, Attrs::of(attrs),
      {.offered = {blocked(x.shape(), DType::bfloat16, dnnl::memory::format_tag::aBcd16b)}});
  EXPECT_EQ(run.kernel, "blocks");
  EXPECT_EQ(run.outputs[0].to_vector<float>(), max_pool(half, {.kernel = {2}}).to_vector<float>());
}

TEST(BlockedMaxPool, KeepsNanAndMinusInfinity) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const Tensor x = Tensor::full({1, 16, 2, 2}, -inf);
  x.data<float>()[2] = nan;
  PoolAttrs attrs;
  attrs.kernel = {2};
  const LayoutRun run = run_in_layouts(
      get_op("max_pool"), {x}, Attrs::of(attrs),
      {.offered = {blocked(x.shape(), DType::float32, dnnl::memory::format_tag::aBcd16b)}});
  EXPECT_TRUE(std::isnan(run.outputs[0].data<float>()[0]));
  EXPECT_EQ(run.outputs[0].data<float>()[1], -inf);
}

TEST_F(PoolInLayouts, AverageAndItsGradientStayInTheLayoutOfTheirInput) {
  const Layout large = blocked_by_vectors(large_), small = blocked_by_vectors(small_);
  const LayoutRun run = run_in_layouts(get_op("avg_pool"), {x_}, forward(), {.offered = {large}});
  EXPECT_EQ(run.output_layouts[0], small);
  EXPECT_EQ(run.outputs[0].to_vector<float>(), avg_pool(x_, {.kernel = {2}}).to_vector<float>());
  const LayoutRun back =
      run_in_layouts(get_op("avg_pool_backward"), {dy_}, backward(), {.offered = {small}});
  EXPECT_EQ(back.output_layouts[0], large);
  EXPECT_EQ(back.outputs[0].to_vector<float>(),
            apply(get_op("avg_pool_backward"), std::vector{dy_}, backward())[0].to_vector<float>());
}

}  // namespace
}  // namespace lockstep::testing
