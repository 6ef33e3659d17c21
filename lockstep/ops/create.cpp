// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/create.h"

#include <cmath>
#include <limits>
#include <type_traits>

#include "lockstep/ops/cpu/create.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/families.h"
#include "lockstep/ops/messages.h"
#include "lockstep/tensor/sizes.h"

namespace lockstep {
namespace {

void check_fits(const char* op, double value, DType dtype) {
  visit_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
      // Above int64's largest value the comparison in double would let 2^63 pass.
      if (!(value >= static_cast<double>(std::numeric_limits<T>::lowest()) &&
            value < std::ldexp(1.0, std::numeric_limits<T>::digits)))
        throw InvalidArgument("{}: {} does not fit {}", op, value, name_of(dtype));
  });
}

Infos infer_full(const InferArgs& args) {
  const auto& attrs = args.attrs.as<FullAttrs>();
  const Shape shape = detail::checked_shape(args.op, Shape(attrs.shape));
  check_fits(args.op, attrs.value, attrs.dtype);
  return {{shape, attrs.dtype, cpu(attrs.device)}};
}

Infos infer_arange(const InferArgs& args) {
  const auto& attrs = args.attrs.as<ArangeAttrs>();
  const double count = std::ceil((attrs.stop - attrs.start) / attrs.step);
  if (!std::isfinite(count) || !std::isfinite(attrs.step) || count > 0x1p62)
    throw InvalidArgument("arange: from {} to {} by {} is not a finite range", attrs.start,
                          attrs.stop, attrs.step);
  if (count > 0.0) {
    check_fits(args.op, attrs.start, attrs.dtype);
    check_fits(args.op, attrs.start + (count - 1.0) * attrs.step, attrs.dtype);
  }
  return {{{static_cast<std::int64_t>(std::max(0.0, count))}, attrs.dtype, cpu(attrs.device)}};
}

Infos infer_linspace(const InferArgs& args) {
  const auto& attrs = args.attrs.as<LinspaceAttrs>();
  if (attrs.count < 0)
    throw InvalidArgument("linspace: count is {}, expected 0 or more", attrs.count);
  if (attrs.count > 0) {
    check_fits(args.op, attrs.start, attrs.dtype);
    check_fits(args.op, attrs.stop, attrs.dtype);
  }
  return {{{attrs.count}, attrs.dtype, cpu(attrs.device)}};
}

Infos infer_eye(const InferArgs& args) {
  const auto& attrs = args.attrs.as<EyeAttrs>();
  if (attrs.rows < 0) throw InvalidArgument("eye: rows is {}, expected 0 or more", attrs.rows);
  const std::int64_t columns = attrs.columns < 0 ? attrs.rows : attrs.columns;
  return {{detail::checked_shape(args.op, {attrs.rows, columns}), attrs.dtype, cpu(attrs.device)}};
}

const OpDef& full_op() {
  static const OpDef op{.name = "full",
                        .min_inputs = 0,
                        .max_inputs = 0,
                        .schema = attr_schema<FullAttrs>(),
                        .infer = infer_full,
                        .cpu = kernels::full_kernels()};
  return op;
}

const OpDef& arange_op() {
  static const OpDef op{.name = "arange",
                        .min_inputs = 0,
                        .max_inputs = 0,
                        .schema = attr_schema<ArangeAttrs>(),
                        .infer = infer_arange,
                        .cpu = kernels::arange_kernels()};
  return op;
}

const OpDef& linspace_op() {
  static const OpDef op{.name = "linspace",
                        .min_inputs = 0,
                        .max_inputs = 0,
                        .schema = attr_schema<LinspaceAttrs>(),
                        .infer = infer_linspace,
                        .cpu = kernels::linspace_kernels()};
  return op;
}

const OpDef& eye_op() {
  static const OpDef op{.name = "eye",
                        .min_inputs = 0,
                        .max_inputs = 0,
                        .schema = attr_schema<EyeAttrs>(),
                        .infer = infer_eye,
                        .cpu = kernels::eye_kernels()};
  return op;
}

}  // namespace

Tensor full(const Shape& shape, double value, DType dtype, Device device) {
  return apply_one(full_op(), {}, Attrs::of(FullAttrs{shape.vector(), value, dtype, device.index}));
}

Tensor zeros(const Shape& shape, DType dtype, Device device) {
  return full(shape, 0.0, dtype, device);
}

Tensor ones(const Shape& shape, DType dtype, Device device) {
  return full(shape, 1.0, dtype, device);
}

Tensor zeros_like(const Tensor& x) {
  detail::check_defined("zeros_like", x);
  return full(x.shape(), 0.0, x.dtype(), x.device());
}

Tensor ones_like(const Tensor& x) {
  detail::check_defined("ones_like", x);
  return full(x.shape(), 1.0, x.dtype(), x.device());
}

Tensor arange(double start, double stop, double step, DType dtype, Device device) {
  return apply_one(arange_op(), {}, Attrs::of(ArangeAttrs{start, stop, step, dtype, device.index}));
}

Tensor linspace(double start, double stop, std::int64_t count, DType dtype, Device device) {
  return apply_one(linspace_op(), {},
                   Attrs::of(LinspaceAttrs{start, stop, count, dtype, device.index}));
}

Tensor eye(std::int64_t rows, std::int64_t columns, std::int64_t diagonal, DType dtype,
           Device device) {
  return apply_one(eye_op(), {}, Attrs::of(EyeAttrs{rows, columns, diagonal, dtype, device.index}));
}

namespace families {

Family create() { return {&full_op(), &arange_op(), &linspace_op(), &eye_op()}; }

}  // namespace families
}  // namespace lockstep
