// SPDX-License-Identifier: Apache-2.0
// Included once for each SIMD target, as Highway's own -inl.h files are.
#if defined(LOCKSTEP_OPS_CPU_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_OPS_CPU_ROWS_INL_H_
#undef LOCKSTEP_OPS_CPU_ROWS_INL_H_
#else
#define LOCKSTEP_OPS_CPU_ROWS_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <cmath>
#include <cstdint>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Fewer elements than a vector holds; the other lanes are zero and their memory is not touched.
#if HWY_MEM_OPS_MIGHT_FAULT
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_part(D d, const T* x, std::size_t count) {
  HWY_ALIGN T padded[hn::MaxLanes(D())] = {};
  for (std::size_t i = 0; i < count; ++i) padded[i] = x[i];
  return hn::Load(d, padded);
}

template <class D, class T = hn::TFromD<D>>
HWY_INLINE void store_part(D d, hn::Vec<D> v, T* x, std::size_t count) {
  HWY_ALIGN T padded[hn::MaxLanes(D())];
  hn::Store(v, d, padded);
  for (std::size_t i = 0; i < count; ++i) x[i] = padded[i];
}
#else
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_part(D d, const T* x, std::size_t count) {
  return hn::MaskedLoad(hn::FirstN(d, count), d, x);
}

template <class D, class T = hn::TFromD<D>>
HWY_INLINE void store_part(D d, hn::Vec<D> v, T* x, std::size_t count) {
  hn::BlendedStore(v, hn::FirstN(d, count), d, x);
}
#endif

// The larger (smaller) of two; NaN wins over everything.
template <bool kLargest, class V>
HWY_INLINE V extreme(V a, V b) {
  const auto better = kLargest ? hn::Gt(b, a) : hn::Lt(b, a);
  return hn::IfThenElse(hn::Or(better, hn::IsNaN(b)), b, a);
}

template <bool kLargest, class T>
HWY_INLINE T scalar_extreme(T a, T b) {
  return (kLargest ? b > a : b < a) || std::isnan(b) ? b : a;
}

template <bool kLargest, class T>
HWY_INLINE T least_extreme() {
  const T inf = std::numeric_limits<T>::infinity();
  return kLargest ? -inf : inf;
}

// Over the lanes of a vector.
template <bool kLargest, class D>
HWY_INLINE hn::TFromD<D> lane_extreme(D d, hn::Vec<D> v) {
  if (!hn::AllFalse(d, hn::IsNaN(v))) return std::numeric_limits<hn::TFromD<D>>::quiet_NaN();
  return hn::GetLane(kLargest ? hn::MaxOfLanes(d, v) : hn::MinOfLanes(d, v));
}

template <bool kLargest, class T>
HWY_INLINE T row_extreme(const T* x, std::int64_t n) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const V none = hn::Set(d, least_extreme<kLargest, T>());
  V a0 = none, a1 = none, a2 = none, a3 = none;
  std::int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    a0 = extreme<kLargest>(a0, hn::LoadU(d, x + i));
    a1 = extreme<kLargest>(a1, hn::LoadU(d, x + i + lanes));
    a2 = extreme<kLargest>(a2, hn::LoadU(d, x + i + 2 * lanes));
    a3 = extreme<kLargest>(a3, hn::LoadU(d, x + i + 3 * lanes));
  }
  for (; i + lanes <= n; i += lanes) a0 = extreme<kLargest>(a0, hn::LoadU(d, x + i));
  if (i < n) {
    const auto rest = static_cast<std::size_t>(n - i);
    a1 =
        extreme<kLargest>(a1, hn::IfThenElse(hn::FirstN(d, rest), load_part(d, x + i, rest), none));
  }
  return lane_extreme<kLargest>(
      d, extreme<kLargest>(extreme<kLargest>(a0, a1), extreme<kLargest>(a2, a3)));
}

// The sum of f(d, vector, position, valid lanes) over a row. What f gives in invalid lanes does not
// count.
template <class T, class F>
HWY_INLINE T sum_of_row(const T* x, std::int64_t n, const F& f) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V a0 = hn::Zero(d), a1 = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    a0 = hn::Add(a0, f(d, hn::LoadU(d, x + i), i, lanes));
    a1 = hn::Add(a1, f(d, hn::LoadU(d, x + i + lanes), i + lanes, lanes));
  }
  for (; i < n; i += lanes) {
    const std::int64_t rest = n - i < lanes ? n - i : lanes;
    const auto count = static_cast<std::size_t>(rest);
    const V v = rest == lanes ? hn::LoadU(d, x + i) : load_part(d, x + i, count);
    a0 = hn::Add(a0, hn::IfThenElseZero(hn::FirstN(d, count), f(d, v, i, rest)));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(a0, a1)));
}

// y = f(d, vector of x, position, valid lanes) over a row; y may be x.
template <class T, class F>
HWY_INLINE void map_row(const T* x, T* y, std::int64_t n, const F& f) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(d, hn::LoadU(d, x + i), i, lanes), d, y + i);
  if (i == n) return;
  const auto rest = static_cast<std::size_t>(n - i);
  store_part(d, f(d, load_part(d, x + i, rest), i, n - i), y + i, rest);
}

// Another operand of the same row, at the position that map_row and sum_of_row hand over.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_at(D d, const T* x, std::int64_t i, std::int64_t count) {
  if (count == static_cast<std::int64_t>(hn::Lanes(d))) return hn::LoadU(d, x + i);
  return load_part(d, x + i, static_cast<std::size_t>(count));
}

template <class D, class T = hn::TFromD<D>>
HWY_INLINE void store_at(D d, hn::Vec<D> v, T* x, std::int64_t i, std::int64_t count) {
  if (count == static_cast<std::int64_t>(hn::Lanes(d)))
    hn::StoreU(v, d, x + i);
  else
    store_part(d, v, x + i, static_cast<std::size_t>(count));
}

// Highway's exponential of NaN is 0, and its logarithm of NaN a number.
template <class D>
HWY_INLINE hn::Vec<D> exp_or_nan(D d, hn::Vec<D> x) {
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(d, x));
}

template <class D>
HWY_INLINE hn::Vec<D> log_or_nan(D d, hn::Vec<D> x) {
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Log(d, x));
}

template <class T>
struct ExpMinus {
  T most;
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, hn::Vec<D> v, std::int64_t, std::int64_t) const {
    return exp_or_nan(d, hn::Sub(v, hn::Set(d, most)));
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::kernels
HWY_AFTER_NAMESPACE();

#endif
