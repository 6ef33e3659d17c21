// SPDX-License-Identifier: Apache-2.0
// Included once for each SIMD target, as Highway's own -inl.h files are.
#if defined(LOCKSTEP_OPS_CPU_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_OPS_CPU_TRANSPOSE_INL_H_
#undef LOCKSTEP_OPS_CPU_TRANSPOSE_INL_H_
#else
#define LOCKSTEP_OPS_CPU_TRANSPOSE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Blocks of kTransposed x kTransposed: y[j, i] = row i of x at j.
#if HWY_TARGET == HWY_SCALAR
constexpr std::int64_t kTransposed = 1;

template <class RowOf>
HWY_INLINE void transpose_block(const RowOf& row_of, float* y, std::int64_t) {
  *y = *row_of(0);
}
#else
constexpr std::int64_t kTransposed = 4;

template <class RowOf>
HWY_INLINE void transpose_block(const RowOf& row_of, float* y, std::int64_t y_row) {
  const hn::FixedTag<float, 4> d;
  const hn::Repartition<double, decltype(d)> pairs;
  const auto a = hn::LoadU(d, row_of(0)), b = hn::LoadU(d, row_of(1));
  const auto e = hn::LoadU(d, row_of(2)), f = hn::LoadU(d, row_of(3));
  const auto low = hn::BitCast(pairs, hn::InterleaveLower(d, a, b));
  const auto high = hn::BitCast(pairs, hn::InterleaveUpper(d, a, b));
  const auto low2 = hn::BitCast(pairs, hn::InterleaveLower(d, e, f));
  const auto high2 = hn::BitCast(pairs, hn::InterleaveUpper(d, e, f));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, low, low2)), d, y);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, low, low2)), d, y + y_row);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, high, high2)), d, y + 2 * y_row);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, high, high2)), d, y + 3 * y_row);
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::kernels
HWY_AFTER_NAMESPACE();

#endif
