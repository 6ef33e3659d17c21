// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/fold.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "lockstep/base/error.h"
#include "lockstep/base/shard_tree.h"
#include "lockstep/base/vector_clones.h"

namespace lockstep::comm {
namespace {

constexpr std::size_t kTileBytes = 8192;

// The conversions have no branches, so that loops over them become vectors.
struct Half {
  std::uint16_t bits;

  [[gnu::always_inline]] operator float() const {
    const std::uint32_t rest = bits & 0x7fffu;
    const float scaled = std::bit_cast<float>(rest << 13) * 0x1p112f;
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(scaled);
    const std::uint32_t special = rest >= 0x7c00u ? 0x7f800000u : 0u;
    return std::bit_cast<float>(magnitude | special | (std::uint32_t{bits} & 0x8000u) << 16);
  }
  [[gnu::always_inline]] static Half from(float value) {
    const std::uint32_t all = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t size = all & 0x7fffffffu;
    const std::uint32_t normal = (size + 0xc8000fffu + ((size >> 13) & 1u)) >> 13;
    // The float adder rounds what becomes subnormal.
    const std::uint32_t small =
        std::bit_cast<std::uint32_t>(std::bit_cast<float>(size) + 0.5f) - 0x3f000000u;
    const std::uint32_t large = size > 0x7f800000u ? 0x7e00u : 0x7c00u;
    std::uint32_t result = size < 0x38800000u ? small : normal;
    result = size >= 0x477ff000u ? large : result;
    return {static_cast<std::uint16_t>(result | (all >> 16 & 0x8000u))};
  }
};

struct Brain {
  std::uint16_t bits;

  [[gnu::always_inline]] operator float() const {
    return std::bit_cast<float>(std::uint32_t{bits} << 16);
  }
  [[gnu::always_inline]] static Brain from(float value) {
    const std::uint32_t all = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = (all + 0x7fffu + ((all >> 16) & 1u)) >> 16;
    const std::uint32_t nan = all >> 16 | 0x40u;
    return {static_cast<std::uint16_t>((all & 0x7fffffffu) > 0x7f800000u ? nan : rounded)};
  }
};

// Signed overflow wraps, as it does everywhere else.
template <class T>
[[gnu::always_inline]] inline T add(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  } else {
    return a + b;
  }
}

template <class T>
[[gnu::always_inline]] inline T lesser(T a, T b) {
  return b < a || b != b ? b : a;
}

template <class T>
[[gnu::always_inline]] inline T greater(T a, T b) {
  return b > a || b != b ? b : a;
}

// Numbers of type T are stored as S.
template <class S, class T, class Op>
[[gnu::always_inline]] inline S one(S a, S b, Op op) {
  const T value = op(static_cast<T>(a), static_cast<T>(b));
  if constexpr (std::is_same_v<S, T>)
    return value;
  else
    return S::from(value);
}

template <class S, class T, class Op>
[[gnu::always_inline]] inline void loop(const std::byte* a, const std::byte* b, std::byte* target,
                                        std::size_t count, std::byte* copy, Op op) {
  const auto* left = reinterpret_cast<const S*>(a);
  const auto* right = reinterpret_cast<const S*>(b);
  auto* to = reinterpret_cast<S*>(target);
  auto* also = reinterpret_cast<S*>(copy);
  if (also == nullptr) {
#pragma GCC ivdep
    for (std::size_t i = 0; i < count; ++i) to[i] = one<S, T>(left[i], right[i], op);
  } else {
#pragma GCC ivdep
    for (std::size_t i = 0; i < count; ++i) also[i] = to[i] = one<S, T>(left[i], right[i], op);
  }
}

template <class S, class T>
[[gnu::always_inline]] inline void reduce(Reduction reduction, const std::byte* a,
                                          const std::byte* b, std::byte* target, std::size_t count,
                                          std::byte* copy) {
  const auto sum = [](T x, T y) __attribute__((always_inline)) { return add<T>(x, y); };
  const auto least = [](T x, T y) __attribute__((always_inline)) { return lesser<T>(x, y); };
  const auto most = [](T x, T y) __attribute__((always_inline)) { return greater<T>(x, y); };
  switch (reduction) {
    case Reduction::sum: return loop<S, T>(a, b, target, count, copy, sum);
    case Reduction::minimum: return loop<S, T>(a, b, target, count, copy, least);
    case Reduction::maximum: return loop<S, T>(a, b, target, count, copy, most);
  }
}

std::size_t deepest(std::span<const int> program) {
  std::size_t depth = 0, most = 0;
  for (const int word : program) {
    depth = word == kAdd ? depth - 1 : depth + 1;
    most = std::max(most, depth);
  }
  return most;
}

}  // namespace

// The clones differ in vector width alone: each element is computed by itself.
LOCKSTEP_VECTOR_CLONES void combine(Element element, Reduction reduction, const std::byte* a,
                                    const std::byte* b, std::byte* target, std::size_t count,
                                    std::byte* copy) {
  switch (element) {
    case Element::float32: return reduce<float, float>(reduction, a, b, target, count, copy);
    case Element::float64: return reduce<double, double>(reduction, a, b, target, count, copy);
    case Element::float16: return reduce<Half, float>(reduction, a, b, target, count, copy);
    case Element::bfloat16: return reduce<Brain, float>(reduction, a, b, target, count, copy);
    case Element::int32:
      return reduce<std::int32_t, std::int32_t>(reduction, a, b, target, count, copy);
    case Element::int64:
      return reduce<std::int64_t, std::int64_t>(reduction, a, b, target, count, copy);
    case Element::uint8:
      return reduce<std::uint8_t, std::uint8_t>(reduction, a, b, target, count, copy);
  }
}

Fold::Fold(std::vector<int> program, Element element, Reduction reduction)
    : program_(std::move(program)), element_(element), reduction_(reduction) {
  check(!program_.empty(), "a fold without a source");
  if (program_.size() > 3) tiles_.resize(deepest(program_) * kTileBytes);
}

void Fold::run(std::span<const std::byte* const> sources, std::byte* target, std::size_t count,
               std::span<std::byte* const> copies) {
  const std::size_t size = element_size(element_);
  const bool tiled = program_.size() > 3 || !copies.empty();
  const std::size_t tile = tiled ? kTileBytes / size : count;
  for (std::size_t begin = 0; begin < count; begin += tile) {
    const std::size_t part = std::min(tile, count - begin);
    run_tile(sources, target, begin, part);
    for (std::byte* copy : copies)
      std::memcpy(copy + begin * size, target + begin * size, part * size);
  }
}

// A sum lies in the tile of its own height on the stack; the last one goes to the target, when all
// sources of the tile have been read.
void Fold::run_tile(std::span<const std::byte* const> sources, std::byte* target, std::size_t begin,
                    std::size_t count) {
  const std::size_t offset = begin * element_size(element_);
  if (program_.size() == 1) {
    const std::byte* from = sources[static_cast<std::size_t>(program_[0])] + offset;
    if (from != target + offset) std::memcpy(target + offset, from, count * element_size(element_));
    return;
  }
  stack_.clear();
  for (std::size_t i = 0; i < program_.size(); ++i) {
    if (program_[i] != kAdd) {
      stack_.push_back(sources[static_cast<std::size_t>(program_[i])] + offset);
      continue;
    }
    const std::byte* right = stack_.back();
    stack_.pop_back();
    const std::byte* left = stack_.back();
    const bool last = i + 1 == program_.size();
    std::byte* to = last ? target + offset : tiles_.data() + (stack_.size() - 1) * kTileBytes;
    combine(element_, reduction_, left, right, to, count);
    stack_.back() = to;
  }
}

}  // namespace lockstep::comm
