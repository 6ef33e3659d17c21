// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/tensor/half.h"

namespace lockstep {

enum class DType : std::uint8_t {
  float32,
  float64,
  float16,
  bfloat16,
  int8,
  uint8,
  int16,
  int32,
  int64,
  boolean,
};

inline constexpr int kDTypeCount = 10;

std::size_t item_size(DType dtype);
std::string_view name_of(DType dtype);
// Throws InvalidArgument when no dtype has that name ("float32", "bool", ...).
DType dtype_from_name(std::string_view name);
bool is_floating(DType dtype);
bool is_integral(DType dtype);
// The dtype both operands are brought to before arithmetic, as NumPy's result_type, except that
// integers join floats at the float's own width.
DType promote(DType a, DType b);

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::float32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::float64;
};
template <>
struct DTypeOf<Float16> {
  static constexpr DType value = DType::float16;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::bfloat16;
};
template <>
struct DTypeOf<std::int8_t> {
  static constexpr DType value = DType::int8;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::uint8;
};
template <>
struct DTypeOf<std::int16_t> {
  static constexpr DType value = DType::int16;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::int32;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::int64;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::boolean;
};

template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

template <class T>
struct TypeTag {
  using type = T;
};

// Calls f(TypeTag<T>{}) with the C++ type that stores `dtype`.
template <class F>
decltype(auto) visit_dtype(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float32: return f(TypeTag<float>{});
    case DType::float64: return f(TypeTag<double>{});
    case DType::float16: return f(TypeTag<Float16>{});
    case DType::bfloat16: return f(TypeTag<BFloat16>{});
    case DType::int8: return f(TypeTag<std::int8_t>{});
    case DType::uint8: return f(TypeTag<std::uint8_t>{});
    case DType::int16: return f(TypeTag<std::int16_t>{});
    case DType::int32: return f(TypeTag<std::int32_t>{});
    case DType::int64: return f(TypeTag<std::int64_t>{});
    case DType::boolean: return f(TypeTag<bool>{});
  }
  fail_check("unknown dtype");
}

}  // namespace lockstep
