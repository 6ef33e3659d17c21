// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/calls.h"

#include <gtest/gtest.h>

#include "lockstep/ops/catalogue.h"
#include "lockstep/ops/cpu/dnnl_common.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/instruction_set.h"
#include "tests/ops/op_cases.h"

namespace lockstep::testing {

Tensor random_floats(const Shape& shape, std::uint64_t seed, double low, double high) {
  const Tensor result = Tensor::empty(shape);
  result.assign(random_tensor(shape, seed, low, high));
  return result;
}

void expect_near(const Tensor& a, const Tensor& b, double tolerance) {
  ASSERT_EQ(a.shape().str(), b.shape().str());
  const auto x = a.to_vector<double>();
  const auto y = b.to_vector<double>();
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], tolerance) << "element " << i;
}

Attrs attrs_of(std::string_view op, const std::vector<AttrField>& fields) {
  const AttrSchema& schema = get_op(op).schema;
  return schema.make ? schema.make(op, fields) : Attrs();
}

std::vector<Tensor> call(std::string_view op, const std::vector<Tensor>& inputs,
                         const std::vector<AttrField>& fields) {
  return apply(get_op(op), inputs, attrs_of(op, fields));
}

Layout blocked_by_16(const Shape& shape) {
  return kernels::layout_of(
      {kernels::dnnl_dims(shape), dnnl::memory::data_type::f32, dnnl::memory::format_tag::aBcd16b});
}

Layout blocked_by_vectors(const Shape& shape) {
  settle_instruction_set();
  if (dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core) return blocked_by_16(shape);
  return kernels::layout_of(
      {kernels::dnnl_dims(shape), dnnl::memory::data_type::f32, dnnl::memory::format_tag::aBcd8b});
}

}  // namespace lockstep::testing
