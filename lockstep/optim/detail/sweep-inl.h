// SPDX-License-Identifier: Apache-2.0
// Included once for each SIMD target, by sweep.h: the loops over a rule.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lockstep::optim {
namespace HWY_NAMESPACE {

inline std::int64_t own_target() { return HWY_TARGET; }

// Plain loops, which the compiler turns into vectors: `__restrict` and the rule's copy tell it that
// nothing else changes meanwhile, `flatten` takes the rule's functions into this instruction set.
template <class R>
[[gnu::flatten]] void run0(const R rule, std::size_t count, float* __restrict w,
                           const float* __restrict g) {
  for (std::size_t i = 0; i < count; ++i) rule.step(w[i], g[i]);
}

template <class R>
[[gnu::flatten]] void run1(const R rule, std::size_t count, float* __restrict w,
                           const float* __restrict g, float* __restrict a) {
  for (std::size_t i = 0; i < count; ++i) rule.step(w[i], g[i], a[i]);
}

template <class R>
[[gnu::flatten]] void run2(const R rule, std::size_t count, float* __restrict w,
                           const float* __restrict g, float* __restrict a, float* __restrict b) {
  for (std::size_t i = 0; i < count; ++i) rule.step(w[i], g[i], a[i], b[i]);
}

template <class R>
[[gnu::flatten]] void run3(const R rule, std::size_t count, float* __restrict w,
                           const float* __restrict g, float* __restrict a, float* __restrict b,
                           float* __restrict c) {
  for (std::size_t i = 0; i < count; ++i) rule.step(w[i], g[i], a[i], b[i], c[i]);
}

template <class R>
void run(const R& rule, const Piece& piece) {
  const std::size_t count = piece.weight.size();
  float* w = piece.weight.data();
  const float* g = piece.gradient.data();
  const auto& s = piece.slots;
  if constexpr (R::kSlots == 0) run0(rule, count, w, g);
  if constexpr (R::kSlots == 1) run1(rule, count, w, g, s[0]);
  if constexpr (R::kSlots == 2) run2(rule, count, w, g, s[0], s[1]);
  if constexpr (R::kSlots == 3) run3(rule, count, w, g, s[0], s[1], s[2]);
}

constexpr std::size_t kLanes = 16;

// Sixteen sums side by side, element i in sum i % 16, added as a tree at the end.
struct Squares {
  double lanes[kLanes] = {};

  // All calls but the last have a multiple of sixteen elements.
  void add(const float* __restrict x, std::size_t count) {
    double sums[kLanes];
    std::copy_n(lanes, kLanes, sums);
    std::size_t i = 0;
    for (; i + kLanes <= count; i += kLanes)
      for (std::size_t k = 0; k < kLanes; ++k) {
        const double value = x[i + k];
        sums[k] += value * value;
      }
    for (std::size_t k = 0; i + k < count; ++k) sums[k] += double{x[i + k]} * double{x[i + k]};
    std::copy_n(sums, kLanes, lanes);
  }

  double total() const {
    double sums[kLanes];
    std::copy_n(lanes, kLanes, sums);
    for (std::size_t half = kLanes / 2; half > 0; half /= 2)
      for (std::size_t k = 0; k < half; ++k) sums[k] += sums[k + half];
    return sums[0];
  }
};

template <class R>
[[gnu::flatten]] void directions(const R rule, std::size_t count, const float* __restrict w,
                                 const float* __restrict g, float* __restrict a,
                                 float* __restrict b, float* __restrict out) {
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (R::kSlots == 1) out[i] = rule.direction(w[i], g[i], a[i]);
    if constexpr (R::kSlots == 2) out[i] = rule.direction(w[i], g[i], a[i], b[i]);
  }
}

template <class R>
PieceNorms norms(const R& rule, const Piece& piece) {
  constexpr std::size_t kBlock = 512;
  float block[kBlock];
  Squares weight, direction;
  for (std::size_t i = 0; i < piece.weight.size(); i += kBlock) {
    const std::size_t count = std::min(kBlock, piece.weight.size() - i);
    const float* w = piece.weight.data() + i;
    float* second = R::kSlots > 1 ? piece.slots[R::kSlots - 1] + i : nullptr;
    directions(rule, count, w, piece.gradient.data() + i, piece.slots[0] + i, second, block);
    weight.add(w, count);
    direction.add(block, count);
  }
  return {.weight = weight.total(), .direction = direction.total()};
}

}  // namespace HWY_NAMESPACE

template <>
struct Loops<HWY_TARGET> {
  template <class R>
  static void sweep(const R& rule, const Piece& piece) {
    HWY_NAMESPACE::run(rule, piece);
  }
  template <class R>
  static PieceNorms measure(const R& rule, const Piece& piece) {
    return HWY_NAMESPACE::norms(rule, piece);
  }
  static double sum_of_squares(std::span<const float> values) {
    HWY_NAMESPACE::Squares sum;
    sum.add(values.data(), values.size());
    return sum.total();
  }
};

}  // namespace lockstep::optim
HWY_AFTER_NAMESPACE();
