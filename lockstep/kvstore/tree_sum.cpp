// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/tree_sum.h"

#include <algorithm>
#include <cstring>

#include "lockstep/base/vector_clones.h"

namespace lockstep::kvstore {
namespace {

constexpr std::uint32_t kExponent = 0x7f800000u;

// The clones differ in vector width alone: each element is one exact addition.
LOCKSTEP_VECTOR_CLONES bool are_finite(const float* values, std::size_t count) {
  std::uint32_t bad = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t bits;
    std::memcpy(&bits, values + i, sizeof bits);
    bad |= static_cast<std::uint32_t>((bits & kExponent) == kExponent);
  }
  return bad == 0;
}

LOCKSTEP_VECTOR_CLONES void add_to(const float* a, const float* b, float* target,
                                   std::size_t count) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) target[i] = a[i] + b[i];
}

}  // namespace

bool add_leaf(std::span<const float> leaf, std::span<const float* const> terms, float* target,
              bool check) {
  constexpr std::size_t kTile = 2048;  // stays in the first-level cache
  float sum[kTile];
  bool finite = true;
  for (std::size_t begin = 0; begin < leaf.size(); begin += kTile) {
    const std::size_t count = std::min(kTile, leaf.size() - begin);
    const float* right = leaf.data() + begin;
    for (std::size_t t = 0; t < terms.size(); ++t) {
      float* to = t + 1 == terms.size() ? target + begin : sum;
      add_to(terms[t] + begin, right, to, count);
      right = to;
    }
    if (terms.empty()) std::memcpy(target + begin, right, count * sizeof(float));
    if (check) finite &= are_finite(target + begin, count);
  }
  return finite;
}

bool all_finite(std::span<const float> values) { return are_finite(values.data(), values.size()); }

}  // namespace lockstep::kvstore
