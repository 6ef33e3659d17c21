// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/attention_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lockstep/ops/cpu/attention_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "lockstep/ops/cpu/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {

using D = FloatTag;
constexpr float kNever = -std::numeric_limits<float>::infinity();

// Calls f(i, scores) for vectors that cover row[0, count), -inf beyond; returns where they end.
// The padding is replaced in the register: storing it first would make the load wait.
template <class F>
HWY_INLINE std::int64_t each_vector(const float* row, std::int64_t count, F&& f) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) f(i, hn::LoadU(d, row + i));
  if (i == count) return i;
  const auto counts = hn::FirstN(d, static_cast<std::size_t>(count - i));
  f(i, hn::IfThenElse(counts, hn::LoadU(d, row + i), constant(kNever)));
  return i + lanes;
}

HWY_INLINE void zero_rest(float* x, std::int64_t begin, std::int64_t end) {
  if (begin < end) std::fill(x + begin, x + end, 0.0f);
}

// A row of which no score is larger than -inf: it sees nothing, or what it sees is not a number.
HWY_INLINE float nothing_seen(float* scores, std::int64_t count, std::int64_t width) {
  const bool nan = std::any_of(scores, scores + count, [](float x) { return std::isnan(x); });
  std::fill_n(scores, count, nan ? std::numeric_limits<float>::quiet_NaN() : 0.0f);
  zero_rest(scores, count, width);
  return nan ? scores[0] : 0.0f;
}

// NaNs are passed over: each makes one of its exponential.
HWY_INLINE float highest_score(const float* scores, std::int64_t count) {
  const D d;
  auto highest = constant(kNever);
  each_vector(scores, count,
              [&](std::int64_t, FloatVec x) HWY_ATTR { highest = hn::Max(x, highest); });
  return hn::GetLane(hn::MaxOfLanes(d, highest));
}

float SoftmaxRowImpl(float* scores, std::int64_t count, std::int64_t width) {
  const D d;
  const float max = highest_score(scores, count);
  if (max == kNever) return nothing_seen(scores, count, width);
  const auto offset = constant(max);
  auto total = hn::Zero(d);
  const auto end = each_vector(scores, count, [&](std::int64_t i, FloatVec x) HWY_ATTR {
    const auto e = exp_of_negative(hn::Sub(x, offset));
    hn::StoreU(e, d, scores + i);
    total = hn::Add(total, e);
  });
  zero_rest(scores, end, width);
  return hn::GetLane(hn::SumOfLanes(d, total));
}

void SoftmaxBackwardRowImpl(float* scores, float* dp, std::int64_t count, std::int64_t width,
                            const SoftmaxBackwardRow& row) {
  const D d;
  // A row that sees nothing has log_sum = -inf; exp(score - inf) gives the zeros it needs.
  const bool sees = row.log_sum != kNever;
  const auto max = constant(sees ? highest_score(scores, count) : 0.0f);
  const auto log_sum = constant(sees ? row.log_sum : -kNever);
  const auto delta = constant(row.delta);
  const auto scale = constant(row.scale);
  const auto end = each_vector(scores, count, [&](std::int64_t i, FloatVec x) HWY_ATTR {
    const auto p = exp_of_negative(hn::Sub(hn::Sub(x, max), log_sum));
    const auto ds = hn::Mul(hn::Mul(p, scale), hn::Sub(hn::LoadU(d, dp + i), delta));
    hn::StoreU(p, d, scores + i);
    hn::StoreU(ds, d, dp + i);
  });
  zero_rest(scores, end, width);
  zero_rest(dp, end, width);
}

float DotRowImpl(const float* a, const float* b, std::int64_t count) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto total = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    total = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), total);
  float sum = hn::GetLane(hn::SumOfLanes(d, total));
  for (; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

void ScaleRowImpl(float* x, std::int64_t count, float factor) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto f = hn::Set(d, factor);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(hn::Mul(hn::LoadU(d, x + i), f), d, x + i);
  for (; i < count; ++i) x[i] *= factor;
}

}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {

HWY_EXPORT(SoftmaxRowImpl);
HWY_EXPORT(SoftmaxBackwardRowImpl);
HWY_EXPORT(DotRowImpl);
HWY_EXPORT(ScaleRowImpl);

float softmax_row(float* scores, std::int64_t count, std::int64_t width) {
  return HWY_DYNAMIC_DISPATCH(SoftmaxRowImpl)(scores, count, width);
}

void softmax_backward_row(float* scores, float* dp, std::int64_t count, std::int64_t width,
                          const SoftmaxBackwardRow& row) {
  HWY_DYNAMIC_DISPATCH(SoftmaxBackwardRowImpl)(scores, dp, count, width, row);
}

float dot_row(const float* a, const float* b, std::int64_t count) {
  return HWY_DYNAMIC_DISPATCH(DotRowImpl)(a, b, count);
}

void scale_row(float* x, std::int64_t count, float factor) {
  HWY_DYNAMIC_DISPATCH(ScaleRowImpl)(x, count, factor);
}

}  // namespace lockstep::kernels
#endif
