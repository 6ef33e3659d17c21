// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/winograd.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lockstep/ops/catalogue.h"
#include "tests/ops/layout_run.h"
#include "tests/ops/op_cases.h"

namespace lockstep::testing {
namespace {

using kernels::winograd_wins;
using kernels::WinogradPass;

constexpr WinogradPass kPasses[] = {WinogradPass::forward, WinogradPass::backward_data,
                                    WinogradPass::backward_weights};

ConvProblem square(std::int64_t n, std::int64_t c, std::int64_t o, std::int64_t size,
                   ConvWindow window = {.padding = {1}}, std::int64_t kernel = 3) {
  const std::int64_t stride = window.stride.empty() ? 1 : window.stride[0];
  const std::int64_t out = (size + 2 * window.padding[0] - kernel) / stride + 1;
  return {{n, c, size, size}, {o, c / window.groups, kernel, kernel}, {n, o, out, out}, window};
}

TEST(Winograd, IsChosenForLargeWorkInEveryPass) {
  for (const WinogradPass pass : kPasses) {
    EXPECT_TRUE(winograd_wins(square(32, 64, 64, 32), DType::float32, pass));
    EXPECT_TRUE(winograd_wins(square(32, 256, 256, 8), DType::float32, pass));
    EXPECT_TRUE(winograd_wins(square(128, 64, 128, 16), DType::float32, pass));
  }
}

TEST(Winograd, IsNotChosenWhereTilesAreFewOrHalfEmpty) {
  for (const WinogradPass pass : kPasses) {
    EXPECT_FALSE(winograd_wins(square(4, 256, 256, 8), DType::float32, pass));
    EXPECT_FALSE(winograd_wins(square(32, 512, 512, 4), DType::float32, pass));
    EXPECT_FALSE(winograd_wins(square(64, 64, 64, 5), DType::float32, pass));
    EXPECT_FALSE(winograd_wins(square(64, 3, 64, 32), DType::float32, pass));
    EXPECT_FALSE(winograd_wins(square(0, 64, 64, 32), DType::float32, pass));
  }
}

TEST(Winograd, IsForDenseThreeByThreeInFloat32Only) {
  for (const WinogradPass pass : kPasses) {
    EXPECT_FALSE(winograd_wins(square(32, 64, 64, 32), DType::bfloat16, pass));
    EXPECT_FALSE(winograd_wins(square(32, 64, 64, 32, {.padding = {2}}, 5), DType::float32, pass));
    for (const ConvWindow& window :
         {ConvWindow{.stride = {2}, .padding = {1}}, ConvWindow{.padding = {2}, .dilation = {2}},
          ConvWindow{.padding = {1}, .groups = 2}})
      EXPECT_FALSE(winograd_wins(square(32, 64, 64, 32, window), DType::float32, pass));
  }
}

Tensor random_floats(const Shape& shape, std::uint64_t seed) {
  const Tensor x = Tensor::empty(shape, DType::float32);
  x.assign(random_tensor(shape, seed));
  return x;
}

double relative_distance(const Tensor& a, const Tensor& b) {
  const auto x = a.to_vector<double>(), y = b.to_vector<double>();
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    difference += (x[i] - y[i]) * (x[i] - y[i]);
    size += y[i] * y[i];
  }
  return std::sqrt(difference / size);
}

void expect_close_to_direct(const char* op, const std::vector<Tensor>& inputs, const Attrs& attrs) {
  const LayoutRun fast = run_in_layouts(get_op(op), inputs, attrs);
  const LayoutRun direct = run_in_layouts(get_op(op), inputs, attrs, {.allow_winograd = false});
  EXPECT_EQ(direct.kernel.find("wino"), std::string::npos);
  for (std::size_t i = 0; i < fast.outputs.size(); ++i)
    EXPECT_LT(relative_distance(fast.outputs[i], direct.outputs[i]), 1e-5) << fast.kernel;
}

TEST(Winograd, IsCloseToTheDirectAlgorithmInEveryPass) {
  for (const std::int64_t padding : {0, 1}) {
    const std::int64_t size = 31, out = size + 2 * padding - 2;
    const Tensor x = random_floats({2, 64, size, size}, 1), w = random_floats({64, 64, 3, 3}, 2);
    const Tensor dy = random_floats({2, 64, out, out}, 3), bias = random_floats({64}, 4);
    const ConvWindow window{.padding = {padding}};
    expect_close_to_direct("conv", {x, w, bias}, Attrs::of(ConvAttrs{window, "relu"}));
    expect_close_to_direct("conv_backward_data", {dy, w},
                           Attrs::of(ConvDataAttrs{window, {size, size}, {}}));
    expect_close_to_direct("conv_backward_weights", {x, dy},
                           Attrs::of(ConvWeightsAttrs{window, {3, 3}, true}));
  }
}

}  // namespace
}  // namespace lockstep::testing
