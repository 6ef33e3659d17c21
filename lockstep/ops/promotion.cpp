// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/promotion.h"

#include <cmath>

#include "lockstep/base/short_list.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/elementwise.h"

namespace lockstep {
namespace {

using DTypes = ShortList<DType, 4>;

DType common_dtype(std::span<const DType> dtypes) {
  DType common = dtypes[0];
  for (DType dtype : dtypes.subspan(1)) common = promote(common, dtype);
  return common;
}

DType floating_dtype(DType dtype) { return is_floating(dtype) ? dtype : DType::float32; }

// Most calls: two tensors of one dtype, which are common already.
bool are_common(const OpDef& op, std::span<const Tensor> inputs) {
  return op.promotion == Promotion::common && inputs.size() == 2 && inputs[0].defined() &&
         inputs[1].defined() && inputs[0].dtype() == inputs[1].dtype();
}

// Fills in the inputs' dtypes. False when there is nothing to cast, or an input is undefined, of
// which dispatch complains.
bool needs_casts(const OpDef& op, std::span<const Tensor> inputs, DTypes& dtypes) {
  if (op.promotion == Promotion::none) return false;
  for (const Tensor& input : inputs) {
    if (!input.defined()) return false;
    dtypes.emplace_back(input.dtype());
  }
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (promoted_dtype(op.promotion, dtypes.span(), i) != dtypes[i]) return true;
  return false;
}

std::vector<Tensor> apply_with_casts(const OpDef& op, std::span<const Tensor> inputs,
                                     std::span<const DType> dtypes, const Attrs& attrs) {
  std::vector<Tensor> made;
  made.reserve(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    made.push_back(cast(inputs[i], promoted_dtype(op.promotion, dtypes, i)));
  return apply(op, made, attrs);
}

// Where the dtypes have to be looked at. Not inlined: most calls do without.
[[gnu::noinline]] Tensor cast_and_apply_one(const OpDef& op, std::initializer_list<Tensor> inputs,
                                            const Attrs& attrs) {
  const std::span<const Tensor> given(inputs.begin(), inputs.size());
  DTypes dtypes(given.size());
  if (!needs_casts(op, given, dtypes)) return apply_one(op, inputs, attrs);
  return apply_with_casts(op, given, dtypes.span(), attrs)[0];
}

bool fits(double value, DType dtype) {
  switch (dtype) {
    case DType::int8: return value >= -128 && value <= 127;
    case DType::uint8: return value >= 0 && value <= 255;
    case DType::int16: return value >= -0x1p15 && value < 0x1p15;
    case DType::int32: return value >= -0x1p31 && value < 0x1p31;
    case DType::int64: return value >= -0x1p63 && value < 0x1p63;
    default: return is_floating(dtype);
  }
}

}  // namespace

std::string_view describe(Promotion rule) {
  switch (rule) {
    case Promotion::none: return "";
    case Promotion::common: return "inputs are cast to their common dtype";
    case Promotion::floating:
      return "inputs are cast to their common dtype, integers and bool to float32";
    case Promotion::boolean: return "inputs are cast to bool";
    case Promotion::condition:
      return "the first input is cast to bool, the others to their common dtype";
    case Promotion::like_first: return "the other inputs are cast to the first one's dtype";
    case Promotion::floats_like_first:
      return "other inputs that are floating are cast to the first one's dtype";
    case Promotion::rest_int64: return "the other inputs are cast to int64";
  }
  return "";
}

DType promoted_dtype(Promotion rule, std::span<const DType> inputs, std::size_t input) {
  const bool first = input == 0;
  switch (rule) {
    case Promotion::none: break;
    case Promotion::common: return common_dtype(inputs);
    case Promotion::floating: return floating_dtype(common_dtype(inputs));
    case Promotion::boolean: return DType::boolean;
    case Promotion::condition: return first ? DType::boolean : common_dtype(inputs.subspan(1));
    case Promotion::like_first: return inputs[0];
    case Promotion::floats_like_first:
      return is_floating(inputs[input]) ? inputs[0] : inputs[input];
    case Promotion::rest_int64: return first ? inputs[0] : DType::int64;
  }
  return inputs[input];
}

std::vector<Tensor> apply_promoted(const OpDef& op, std::span<const Tensor> inputs,
                                   const Attrs& attrs) {
  DTypes dtypes(inputs.size());
  if (!needs_casts(op, inputs, dtypes)) return apply(op, inputs, attrs);
  check_input_count(op, inputs.size());
  return apply_with_casts(op, inputs, dtypes.span(), attrs);
}

Tensor apply_one_promoted(const OpDef& op, std::initializer_list<Tensor> inputs,
                          const Attrs& attrs) {
  if (are_common(op, {inputs.begin(), inputs.size()})) return apply_one(op, inputs, attrs);
  return cast_and_apply_one(op, inputs, attrs);
}

DType number_dtype(DType beside, double value) {
  if (is_floating(beside)) return beside;
  if (value != std::floor(value)) return DType::float32;
  for (DType candidate : {beside, DType::int32, DType::int64})
    if (fits(value, candidate)) return promote(beside, candidate);
  return DType::float32;
}

}  // namespace lockstep
