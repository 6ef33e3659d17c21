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

// Fills up to a whole number of vectors, so that the loops need no tail.
std::int64_t pad_row(float* x, std::int64_t count, float value) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(D()));
  const std::int64_t padded = (count + lanes - 1) / lanes * lanes;
  std::fill(x + count, x + padded, value);
  return padded;
}

void zero_rest(float* x, std::int64_t begin, std::int64_t end) {
  if (begin < end) std::fill(x + begin, x + end, 0.0f);
}

SoftmaxRow SoftmaxRowImpl(float* scores, std::int64_t count, std::int64_t width) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t padded = pad_row(scores, count, kNever);
  auto highest = hn::Set(d, kNever);
  for (std::int64_t i = 0; i < padded; i += lanes)
    highest = hn::Max(highest, hn::LoadU(d, scores + i));
  const float max = hn::GetLane(hn::MaxOfLanes(d, highest));
  if (max == kNever) {
    zero_rest(scores, 0, width);
    return {0.0f, max};
  }
  const auto offset = hn::Set(d, max);
  auto total = hn::Zero(d);
  for (std::int64_t i = 0; i < padded; i += lanes) {
    const auto e = vector_exp(hn::Sub(hn::LoadU(d, scores + i), offset));
    hn::StoreU(e, d, scores + i);
    total = hn::Add(total, e);
  }
  zero_rest(scores, padded, width);
  return {hn::GetLane(hn::SumOfLanes(d, total)), max};
}

void SoftmaxBackwardRowImpl(float* scores, float* dp, std::int64_t count, std::int64_t width,
                            const SoftmaxBackwardRow& row) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t padded = pad_row(scores, count, kNever);
  pad_row(dp, count, 0.0f);
  // A row that sees nothing has lse = -inf; exp(score - inf) gives the zeros it needs.
  const auto offset = hn::Set(d, row.lse == kNever ? -kNever : row.lse);
  const auto delta = hn::Set(d, row.delta);
  const auto scale = hn::Set(d, row.scale);
  for (std::int64_t i = 0; i < padded; i += lanes) {
    const auto p = vector_exp(hn::Sub(hn::LoadU(d, scores + i), offset));
    const auto ds = hn::Mul(hn::Mul(p, scale), hn::Sub(hn::LoadU(d, dp + i), delta));
    hn::StoreU(p, d, scores + i);
    hn::StoreU(ds, d, dp + i);
  }
  zero_rest(scores, padded, width);
  zero_rest(dp, padded, width);
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

SoftmaxRow softmax_row(float* scores, std::int64_t count, std::int64_t width) {
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
