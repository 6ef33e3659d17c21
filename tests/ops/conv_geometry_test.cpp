// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "lockstep/ops/elementwise.h"
#include "tests/ops/calls.h"
#include "tests/ops/layout_run.h"
#include "tests/ops/random_geometry.h"

// Convolutions of every shape against the loops of the float64 kernel: eagerly, and as the compiler
// runs them, on memory that begins as NaN and ends at a page that must not be touched. Values are
// small whole numbers, so float32 is exact.
namespace lockstep::testing {
namespace {

struct Problem {
  Tensor x, w, y;
  std::vector<AttrField> window;
  Ints input, kernel;
};

Tensor whole_numbers(Dice& dice, const Ints& shape) {
  const Shape dims(shape);
  std::vector<double> values(static_cast<std::size_t>(dims.numel()));
  for (double& value : values) value = static_cast<double>(dice.between(-2, 2));
  return Tensor::from(values, dims);
}

Ints joined(std::int64_t a, std::int64_t b, const SpatialList& rest) {
  Ints all{a, b};
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

Problem problem_of(const ConvGeometry& g, Dice& dice) {
  Problem p;
  p.x = whole_numbers(dice, joined(g.batch, g.in_channels, g.input));
  p.w = whole_numbers(dice, joined(g.out_channels, g.in_channels / g.groups, g.kernel));
  p.y = whole_numbers(dice, joined(g.batch, g.out_channels, g.output()));
  p.window = {
      {"stride", g.stride}, {"padding", g.padding}, {"dilation", g.dilation}, {"groups", g.groups}};
  p.input = g.input;
  p.kernel = g.kernel;
  return p;
}

struct Pass {
  std::string op;
  std::vector<Tensor> inputs;
  std::vector<AttrField> fields;
};

std::vector<Pass> passes_of(const Problem& p) {
  const auto with = [&](const std::vector<AttrField>& more) {
    std::vector<AttrField> fields = p.window;
    fields.insert(fields.end(), more.begin(), more.end());
    return fields;
  };
  return {{"conv", {p.x, p.w}, p.window},
          {"conv_backward_data", {p.y, p.w}, with({{"input_size", p.input}})},
          {"conv_backward_weights", {p.x, p.y}, with({{"kernel", p.kernel}, {"with_bias", true}})}};
}

// bfloat16 results are rounded, and may have been on the way.
void expect_equal(const Tensor& got, const Tensor& expected, DType dtype, const std::string& text) {
  const std::vector<double> a = cast(got, DType::float64).to_vector<double>();
  const std::vector<double> b = expected.to_vector<double>();
  ASSERT_EQ(a.size(), b.size()) << text;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double slack = dtype == DType::bfloat16 ? 0.02 * std::abs(b[i]) + 0.02 : 0.0;
    ASSERT_TRUE(std::abs(a[i] - b[i]) <= slack)
        << text << ": element " << i << " is " << a[i] << ", expected " << b[i];
  }
}

std::vector<Tensor> in_dtype(std::vector<Tensor> tensors, DType dtype) {
  for (Tensor& x : tensors) x = cast(x, dtype);
  return tensors;
}

// Nothing when there is only a kernel of loops, which the eager call has run.
std::vector<Tensor> compiled(const Pass& pass, const std::vector<Tensor>& inputs) try {
  return run_in_layouts(pass.op, inputs, pass.fields, {.allow_winograd = false}).outputs;
} catch (const Unsupported&) {
  return {};
}

void check_pass(const Pass& pass, const std::string& geometry) {
  const std::vector<Tensor> expected = call(pass.op, pass.inputs, pass.fields);
  for (DType dtype : {DType::float32, DType::bfloat16}) {
    const std::string text = pass.op + " " + std::string(name_of(dtype)) + " " + geometry;
    const std::vector<Tensor> inputs = in_dtype(pass.inputs, dtype);
    const std::vector<Tensor> eager = call(pass.op, inputs, pass.fields);
    const std::vector<Tensor> laid_out = compiled(pass, inputs);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      expect_equal(eager[i], expected[i], dtype, text);
      if (!laid_out.empty()) expect_equal(laid_out[i], expected[i], dtype, "compiled " + text);
    }
  }
}

void check_geometry(const ConvGeometry& geometry, Dice& dice) {
  for (const Pass& pass : passes_of(problem_of(geometry, dice))) {
    check_pass(pass, geometry.str());
    if (::testing::Test::HasFatalFailure()) return;
  }
}

ConvGeometry geometry(std::int64_t batch, std::int64_t in, std::int64_t out, SpatialList input,
                      SpatialList kernel, SpatialList stride, SpatialList padding) {
  const SpatialList dilation(input.size(), 1);
  return {batch, 1, in, out, std::move(input), std::move(kernel), stride, padding, dilation};
}

TEST(ConvGeometry, PaddingAboveHalfOfTheDepthIsRight) {
  Dice dice(1);
  for (const ConvGeometry& g : {geometry(1, 16, 16, {2, 3, 3}, {4, 3, 1}, {2, 2, 2}, {3, 1, 0}),
                                geometry(1, 16, 16, {2, 3, 3}, {5, 1, 1}, {1, 1, 1}, {4, 0, 0}),
                                geometry(1, 16, 16, {1, 3, 3}, {5, 1, 1}, {2, 1, 1}, {2, 0, 0}),
                                geometry(1, 16, 16, {7, 5, 4}, {7, 7, 3}, {2, 1, 1}, {3, 3, 1}),
                                geometry(2, 32, 64, {7, 1, 1}, {7, 1, 1}, {3, 1, 1}, {4, 0, 0})})
    check_geometry(g, dice);
}

TEST(ConvGeometry, InputsSmallerThanTheKernelOrTheStrideAreRight) {
  Dice dice(2);
  for (const ConvGeometry& g : {geometry(8, 64, 64, {1, 1}, {3, 3}, {2, 2}, {1, 1}),
                                geometry(3, 33, 33, {1}, {3}, {2}, {1}),
                                geometry(1, 8, 64, {4, 14, 1}, {1, 1, 1}, {1, 1, 2}, {0, 0, 0}),
                                geometry(2, 24, 16, {4, 1}, {3, 1}, {3, 2}, {1, 0}),
                                geometry(1, 32, 32, {1, 5}, {7, 5}, {2, 4}, {3, 3})})
    check_geometry(g, dice);
}

TEST(ConvGeometry, RowsThatAreLeftOutOfManyChannelsAreRight) {
  Dice dice(3);
  for (const ConvGeometry& g : {geometry(2, 64, 1, {10, 11, 4}, {1, 3, 1}, {2, 1, 1}, {0, 0, 0}),
                                geometry(3, 80, 17, {4, 14, 13}, {4, 1, 1}, {3, 4, 4}, {1, 0, 0})})
    check_geometry(g, dice);
}

TEST(ConvGeometry, WhatIsBehindTheLastWindowOfAVolumeIsZero) {
  Dice dice(4);
  for (const ConvGeometry& g : {geometry(1, 1, 1, {3, 1, 17}, {2, 1, 2}, {2, 1, 4}, {0, 0, 0}),
                                geometry(2, 3, 16, {5, 5, 21}, {2, 5, 7}, {2, 1, 4}, {0, 0, 0}),
                                geometry(2, 17, 1, {12, 6, 17}, {7, 5, 3}, {2, 1, 3}, {0, 1, 0})})
    check_geometry(g, dice);
}

TEST(ConvGeometry, DilatedKernelsOfOddChannelsAreRight) {
  Dice dice(5);
  for (const std::int64_t channels : {16, 33, 48}) {
    ConvGeometry g = geometry(1, channels, 16, {5, 16}, {2, 2}, {1, 1}, {1, 1});
    for (const SpatialList& dilation : {SpatialList{2, 1}, SpatialList{1, 2}, SpatialList{2, 2}}) {
      g.dilation = dilation;
      check_geometry(g, dice);
    }
  }
}

TEST(ConvGeometry, RandomOnesAreRight) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Dice dice(seed);
    check_geometry(random_conv(dice, 150000), dice);
    if (HasFatalFailure()) return;
  }
}

// Kernels that multiply many channels at once.
TEST(ConvGeometry, RandomOnesOfManyChannelsAreRight) {
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    Dice dice(seed);
    ConvGeometry g = random_conv(dice, 3000);
    g.groups = 1;
    g.in_channels = dice.one_of({16, 32, 48, 64, 80, 96, 128});
    g.out_channels = dice.one_of({1, 8, 16, 17, 32, 48});
    if (g.products() > 4'000'000) continue;
    check_geometry(g, dice);
    if (HasFatalFailure()) return;
  }
}

std::vector<bool> nans(const Tensor& x) {
  std::vector<bool> found;
  for (const double value : cast(x, DType::float64).to_vector<double>())
    found.push_back(std::isnan(value));
  return found;
}

// Not further than the windows that see it, however many pixels and channels a kernel multiplies at
// once. (By a weight that is none, padding is multiplied too, or it is not.)
TEST(ConvGeometry, WhatIsNotANumberStaysWhereItIsSeen) {
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    Dice dice(seed);
    const ConvGeometry g = random_conv(dice, 20000);
    std::vector<Pass> passes = passes_of(problem_of(g, dice));
    passes.pop_back();  // the gradient of weights sees all of it
    for (const Pass& pass : passes) {
      Tensor first = pass.inputs[0].copy();
      if (first.numel() == 0) continue;
      first.data<double>()[dice.between(0, first.numel() - 1)] = std::nan("");
      const std::vector<bool> expected =
          nans(call(pass.op, {first, pass.inputs[1]}, pass.fields)[0]);
      for (DType dtype : {DType::float32, DType::bfloat16}) {
        const std::vector<Tensor> inputs = in_dtype({first, pass.inputs[1]}, dtype);
        const std::string text = pass.op + " " + std::string(name_of(dtype)) + " " + g.str();
        ASSERT_EQ(nans(call(pass.op, inputs, pass.fields)[0]), expected) << text;
        const std::vector<Tensor> laid_out = compiled(pass, inputs);
        if (laid_out.empty()) continue;
        ASSERT_EQ(nans(laid_out[0]), expected) << "compiled " << text;
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::testing
