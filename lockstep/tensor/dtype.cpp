// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tensor/dtype.h"

#include <array>

namespace lockstep {
namespace {

struct Facts {
  std::string_view name;
  std::size_t size;
  int rank;  // place in the promotion order
};

// Indexed by DType.
constexpr std::array<Facts, kDTypeCount> kFacts{{{"float32", 4, 8},
                                                 {"float64", 8, 9},
                                                 {"float16", 2, 6},
                                                 {"bfloat16", 2, 7},
                                                 {"int8", 1, 2},
                                                 {"uint8", 1, 1},
                                                 {"int16", 2, 3},
                                                 {"int32", 4, 4},
                                                 {"int64", 8, 5},
                                                 {"bool", 1, 0}}};

const Facts& facts(DType dtype) { return kFacts[static_cast<std::size_t>(dtype)]; }

bool are(DType a, DType b, DType x, DType y) { return (a == x && b == y) || (a == y && b == x); }

}  // namespace

std::size_t item_size(DType dtype) { return facts(dtype).size; }

std::string_view name_of(DType dtype) { return facts(dtype).name; }

DType dtype_from_name(std::string_view name) {
  for (int i = 0; i < kDTypeCount; ++i)
    if (kFacts[static_cast<std::size_t>(i)].name == name) return static_cast<DType>(i);
  throw InvalidArgument(
      "dtype: '{}' is not a dtype (float32, float64, float16, bfloat16, int8, "
      "uint8, int16, int32, int64, bool)",
      name);
}

bool is_floating(DType dtype) { return facts(dtype).rank >= 6; }

bool is_integral(DType dtype) { return facts(dtype).rank >= 1 && facts(dtype).rank <= 5; }

DType promote(DType a, DType b) {
  if (are(a, b, DType::float16, DType::bfloat16)) return DType::float32;
  if (are(a, b, DType::int8, DType::uint8)) return DType::int16;
  return facts(a).rank >= facts(b).rank ? a : b;
}

}  // namespace lockstep
