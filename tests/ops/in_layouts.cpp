// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/in_layouts.h"

#include <gtest/gtest.h>

#include "lockstep/ops/catalogue.h"
#include "lockstep/ops/cpu/dnnl_common.h"
#include "lockstep/ops/cpu/reorder.h"
#include "lockstep/ops/dispatch.h"
#include "tests/ops/op_cases.h"

namespace lockstep::testing {
namespace {

Tensor bytes(std::size_t count) {
  return Tensor::empty({static_cast<std::int64_t>(count)}, DType::uint8);
}

bool can_convert(const Layout& layout) {
  return layout.is_plain() || dynamic_cast<const kernels::DnnlLayout*>(layout.blocked()) != nullptr;
}

void convert(const TensorInfo& info, const Layout& from, std::byte* source, const Layout& to,
             std::byte* target) {
  const auto reorder = make_reorder(info, from, info, to);
  const Tensor scratch = bytes(reorder->scratch_bytes);
  reorder->run({std::span(&source, 1), std::span(&target, 1), scratch.raw()});
}

// The tensor in a layout, as bytes; a workspace is in its layout already.
Tensor in_layout(const Tensor& x, const Layout& layout) {
  if (!can_convert(layout)) return x;
  const Tensor result = bytes(layout.bytes(x.info()));
  convert(x.info(), {}, x.raw(), layout, result.raw());
  return result;
}

Tensor space_for(const TensorInfo& info, const Layout& layout) {
  if (can_convert(layout)) return bytes(layout.bytes(info));
  EXPECT_LE(layout.bytes(info), info.bytes());
  return Tensor::empty(info.shape, info.dtype);
}

Tensor as_plain(const Tensor& held, const TensorInfo& info, const Layout& layout) {
  if (!can_convert(layout)) return held;
  const Tensor result = Tensor::empty(info.shape, info.dtype);
  convert(info, layout, held.raw(), {}, result.raw());
  return result;
}

std::vector<std::byte*> addresses(const std::vector<Tensor>& tensors) {
  std::vector<std::byte*> result;
  for (const Tensor& t : tensors) result.push_back(t.raw());
  return result;
}

}  // namespace

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

std::vector<Tensor> call(std::string_view op, const std::vector<Tensor>& inputs,
                         const std::vector<AttrField>& fields) {
  const OpDef& def = get_op(op);
  return apply(def, inputs, def.schema.make ? def.schema.make(op, fields) : Attrs());
}

Layout blocked_by_16(const Shape& shape) {
  return kernels::layout_of(
      {kernels::dnnl_dims(shape), dnnl::memory::data_type::f32, dnnl::memory::format_tag::aBcd16b});
}

InLayouts::InLayouts(std::string_view op, const std::vector<AttrField>& fields)
    : op_(get_op(op)), attrs_(op_.schema.make(op, fields)) {}

std::vector<Tensor> InLayouts::run(const std::vector<Tensor>& inputs,
                                   const std::vector<Layout>& offered) {
  Infos infos;
  for (const Tensor& t : inputs) infos.push_back(t.info());
  const Infos out = infer(op_, infos, attrs_);
  kernel = choose_kernel({op_, attrs_, infos, out, offered, true}).prepared;
  std::vector<Tensor> in_held, out_held;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    in_held.push_back(in_layout(inputs[i], kernel->input_layouts[i]));
  for (std::size_t i = 0; i < out.size(); ++i)
    out_held.push_back(space_for(out[i], kernel->output_layouts[i]));
  const Tensor scratch = bytes(kernel->scratch_bytes);
  kernel->run({addresses(in_held), addresses(out_held), scratch.raw()});
  for (std::size_t i = 0; i < out.size(); ++i)
    out_held[i] = as_plain(out_held[i], out[i], kernel->output_layouts[i]);
  return out_held;
}

}  // namespace lockstep::testing
