// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/check_cases.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "lockstep/graph/executable.h"
#include "lockstep/ops/dispatch.h"

namespace lockstep::testing {
namespace {

Tensor converted(const Tensor& x, DType dtype) {
  const Tensor result = Tensor::empty(x.shape(), dtype, x.device());
  result.assign(x);
  return result;
}

bool close(double got, double want, double tolerance) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got);
  if (std::isinf(want) || std::isinf(got)) return got == want;
  return std::abs(got - want) <= tolerance * std::max(1.0, std::abs(want));
}

std::string place(const Shape& shape, std::int64_t index) {
  Ints position(static_cast<std::size_t>(shape.rank()));
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    position[static_cast<std::size_t>(axis)] = index % shape[axis];
    index /= shape[axis];
  }
  return Dims(position).str();
}

}  // namespace

const std::vector<CaseFamily>& case_families() {
  static const std::vector<CaseFamily> families{
      {"elementwise", elementwise_cases},
      {"unary", unary_cases},
      {"math", math_cases},
      {"reduce", reduce_cases},
      {"matmul", matmul_cases},
      {"linalg", linalg_cases},
      {"conv", conv_cases},
      {"pool", pool_cases},
      {"resample", resample_cases},
      {"norm", norm_cases},
      {"dropout", dropout_cases},
      {"softmax", softmax_cases},
      {"loss", loss_cases},
      {"ctc", ctc_cases},
      {"index", index_cases},
      {"shape", shape_cases},
      {"matrix_parts", matrix_parts_cases},
      {"sort", sort_cases},
      {"rnn", rnn_cases},
      {"attention", attention_cases},
      {"random", random_cases},
      {"create", create_cases},
      {"update", update_cases},
      {"fused", fused_cases},
  };
  return families;
}

Tensors on_device(const Tensors& tensors, const Device& device) {
  Tensors moved;
  for (const Tensor& x : tensors) moved.push_back(x.defined() ? x.to(device) : x);
  return moved;
}

Tensors apply_on(const Device& device, const OpDef& op, const Tensors& inputs, const Attrs& attrs) {
  if (!inputs.empty() || device == Device()) return apply(op, on_device(inputs, device), attrs);
  return apply(op, {}, with_attr(op, attrs, "device", device));
}

std::string describe(const OpCase& c) {
  std::string text = c.op + "(";
  for (std::size_t i = 0; i < c.inputs.size(); ++i)
    text += (i ? ", " : "") + c.inputs[i].info().str();
  return text + "; " + c.attrs.str() + "): " + c.label;
}

bool has_floating(const Tensors& tensors) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const Tensor& t) { return is_floating(t.dtype()); });
}

Tensors with_dtype(const Tensors& inputs, DType dtype) {
  Tensors result = inputs;
  for (Tensor& x : result)
    if (is_floating(x.dtype())) x = converted(x, dtype);
  return result;
}

Tensor strided_copy(const Tensor& x) {
  const int rank = x.rank();
  if (rank == 0) return x.copy();
  Shape wide;
  for (int axis = rank - 1; axis >= 0; --axis) wide.push_back(x.shape()[axis]);
  wide[0] = 2 * wide[0] + 1;
  const Tensor base = Tensor::full(wide, 1.0, x.dtype(), x.device());
  Strides strides;
  for (int axis = rank - 1; axis >= 0; --axis) strides.push_back(base.strides()[axis]);
  const std::int64_t offset = base.numel() == 0 ? 0 : base.strides()[0];
  strides[rank - 1] *= 2;
  const Tensor window = base.window(x.shape(), strides, offset);
  window.assign(x);
  return window;
}

Tensors strided_copies(const Tensors& inputs) {
  Tensors result;
  for (const Tensor& x : inputs) result.push_back(strided_copy(x));
  return result;
}

double tolerance_of(const OpCase& c, DType dtype) {
  switch (dtype) {
    case DType::float32: return c.tolerance;
    case DType::float64: return std::min(1e-10, c.tolerance);
    default: return std::max(2e-2, c.tolerance);
  }
}

std::string difference(const Tensor& got, const Tensor& want, double tolerance) {
  if (!(got.shape() == want.shape()))
    return fmt::format("shape {}, expected {}", got.shape().str(), want.shape().str());
  if (is_floating(got.dtype()) != is_floating(want.dtype()))
    return fmt::format("dtype {}, expected {}", name_of(got.dtype()), name_of(want.dtype()));
  if (!is_floating(got.dtype())) tolerance = 0.0;
  const auto a = got.to_vector<double>();
  // Rounded as the result is, so that what overflows in both is equal.
  const auto rounded = converted(want, got.dtype()).to_vector<double>();
  const auto exact = want.to_vector<double>();
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!close(a[i], std::isinf(rounded[i]) ? rounded[i] : exact[i], tolerance))
      return fmt::format("{} at {}, expected {}", a[i],
                         place(got.shape(), static_cast<std::int64_t>(i)), exact[i]);
  return {};
}

std::string bit_difference(const Tensor& got, const Tensor& want) {
  if (!(got.info() == want.info()))
    return fmt::format("{}, expected {}", got.info().str(), want.info().str());
  const Tensor a = got.contiguous();
  const Tensor b = want.contiguous();
  const std::size_t size = item_size(a.dtype());
  for (std::int64_t i = 0; i < a.numel(); ++i) {
    const std::size_t at = static_cast<std::size_t>(i) * size;
    if (std::memcmp(a.raw() + at, b.raw() + at, size) == 0) continue;
    return fmt::format("{} at {}, expected {}", a.to_vector<double>()[static_cast<std::size_t>(i)],
                       place(a.shape(), i), b.to_vector<double>()[static_cast<std::size_t>(i)]);
  }
  return {};
}

void expect_the_hosts_bits(const std::vector<Tensor>& got, const std::vector<Tensor>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_EQ(bit_difference(got[i].to(cpu()), want[i]), "") << "result " << i;
}

Tensors run_compiled(const TensorFunction& function, const Tensors& inputs, Compiled how) {
  Infos infos;
  for (const Tensor& x : inputs) infos.push_back(x.info());
  const bool optimised = how == Compiled::optimised;
  const CompileOptions options{
      .simplify = optimised, .fuse = optimised, .choose_layouts = optimised, .winograd = optimised};
  return Executable::compile(trace(function, infos), options).run(inputs);
}

}  // namespace lockstep::testing
