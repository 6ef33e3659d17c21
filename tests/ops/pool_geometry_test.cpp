// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <dnnl.hpp>

#include "lockstep/ops/cpu/dnnl_common.h"
#include "lockstep/ops/elementwise.h"
#include "tests/ops/calls.h"
#include "tests/ops/layout_run.h"
#include "tests/ops/random_geometry.h"

// Pools of every shape against the loops of the float64 kernel: eagerly, and in plain and blocked
// layouts on guarded memory (tests/ops/guarded_buffer.h).
namespace lockstep::testing {
namespace {

Layout blocked(const Shape& shape, DType dtype) {
  using Tag = dnnl::memory::format_tag;
  constexpr Tag kTags[] = {Tag::aBc16b, Tag::aBcd16b, Tag::aBcde16b};
  return Layout(std::make_shared<kernels::DnnlLayout>(
      dnnl::memory::desc(kernels::dnnl_dims(shape), *kernels::dnnl_type(dtype),
                         kTags[static_cast<std::size_t>(shape.rank() - 3)])));
}

Tensor whole_numbers(Dice& dice, const Shape& shape) {
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  for (double& value : values) value = static_cast<double>(dice.between(-8, 8));
  return Tensor::from(values, shape);
}

void expect_equal(const Tensor& got, const Tensor& expected, DType dtype, const std::string& text) {
  const std::vector<double> a = cast(got, DType::float64).to_vector<double>();
  const std::vector<double> b = cast(expected, DType::float64).to_vector<double>();
  ASSERT_EQ(a.size(), b.size()) << text;
  const double slack = dtype == DType::bfloat16 ? 0.02 : 1e-6;
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_TRUE(std::abs(a[i] - b[i]) <= slack * (1.0 + std::abs(b[i])))
        << text << ": element " << i << " is " << a[i] << ", expected " << b[i];
}

// `outputs` of them are compared: a workspace has meaning for its own kernels alone.
void check_op(const std::string& op, const std::vector<Tensor>& inputs,
              const std::vector<AttrField>& fields, const std::string& geometry) {
  const Tensor expected = call(op, inputs, fields)[0];
  for (DType dtype : {DType::float32, DType::bfloat16}) {
    const std::string text = op + " " + std::string(name_of(dtype)) + " " + geometry;
    std::vector<Tensor> typed = inputs;
    typed[0] = cast(inputs[0], dtype);
    expect_equal(call(op, typed, fields)[0], expected, dtype, text);
    for (const Layout& layout : {Layout(), blocked(inputs[0].shape(), dtype)}) try {
        const LayoutRun run = run_in_layouts(op, typed, fields, {.offered = {layout}});
        expect_equal(run.outputs[0], expected, dtype, run.kernel + " " + text);
      } catch (const Unsupported&) {  // only a kernel of loops
      }
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(PoolGeometry, RandomOnesAreRight) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Dice dice(seed);
    const PoolGeometry g = random_pool(dice);
    Ints sizes{g.batch, g.channels};
    sizes.insert(sizes.end(), g.input.begin(), g.input.end());
    const std::vector<AttrField> window{{"kernel", g.kernel},
                                        {"stride", g.stride},
                                        {"padding", g.padding},
                                        {"ceil_mode", g.ceil_mode},
                                        {"count_include_pad", g.count_include_pad}};
    std::vector<AttrField> back = window, dilated = window;
    back.push_back({"input_size", Ints(g.input)});
    dilated.push_back({"dilation", g.dilation});
    std::vector<AttrField> dilated_back = back;
    dilated_back.push_back({"dilation", g.dilation});
    const Tensor x = whole_numbers(dice, Shape(sizes));
    const std::vector<Tensor> largest = call("max_pool", {x}, dilated);
    const Tensor dy = whole_numbers(dice, largest[0].shape());
    check_op("max_pool", {x}, dilated, g.str());
    check_op("avg_pool", {x}, window, g.str());
    check_op("max_pool_backward", {dy, largest[1]}, dilated_back, g.str());
    const Tensor means = call("avg_pool", {x}, window)[0];
    check_op("avg_pool_backward", {whole_numbers(dice, means.shape())}, back, g.str());
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace lockstep::testing
