// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/rows.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lockstep/ops/cpu/rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

HWY_INLINE float finish_one(float y, const float* bias, std::int64_t j, bool relu) {
  if (bias != nullptr) y += bias[j];
  return relu && y < 0.0f ? 0.0f : y;
}

HWY_INLINE V Relu(V v) { return hn::IfThenZeroElse(hn::Lt(v, hn::Zero(D())), v); }

void FinishRows(float* y, const float* bias, std::int64_t rows, std::int64_t columns, bool relu) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t i = 0; i < rows; ++i, y += columns) {
    std::int64_t j = 0;
    for (; j + lanes <= columns; j += lanes) {
      V v = hn::LoadU(d, y + j);
      if (bias != nullptr) v = hn::Add(v, hn::LoadU(d, bias + j));
      hn::StoreU(relu ? Relu(v) : v, d, y + j);
    }
    for (; j < columns; ++j) y[j] = finish_one(y[j], bias, j, relu);
  }
}

void ReluInPlace(float* y, std::int64_t count) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(Relu(hn::LoadU(d, y + i)), d, y + i);
  for (; i < count; ++i) y[i] = finish_one(y[i], nullptr, 0, true);
}

// Each group of rows is summed by itself first: long sums lose less that way. A group is read from
// end to end before the next, so that memory is read in order.
template <int kVectors>
HWY_INLINE void AddColumns(const float* x, std::int64_t rows, std::int64_t stride, float* total) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  V group[kVectors];
  for (V& g : group) g = hn::Zero(d);
  for (std::int64_t i = 0; i < rows; ++i)
    for (int v = 0; v < kVectors; ++v)
      group[v] = hn::Add(group[v], hn::LoadU(d, x + i * stride + v * lanes));
  for (int v = 0; v < kVectors; ++v)
    hn::StoreU(hn::Add(hn::LoadU(d, total + v * lanes), group[v]), d, total + v * lanes);
}

HWY_INLINE void AddColumn(const float* x, std::int64_t rows, std::int64_t stride, float* total) {
  float group = 0.0f;
  for (std::int64_t i = 0; i < rows; ++i) group += x[i * stride];
  *total += group;
}

HWY_INLINE void AddGroup(const float* x, std::int64_t rows, std::int64_t columns, float* total) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(D()));
  std::int64_t j = 0;
  for (; j + 4 * lanes <= columns; j += 4 * lanes) AddColumns<4>(x + j, rows, columns, total + j);
  for (; j + lanes <= columns; j += lanes) AddColumns<1>(x + j, rows, columns, total + j);
  for (; j < columns; ++j) AddColumn(x + j, rows, columns, total + j);
}

void AddRows(const float* x, std::int64_t rows, std::int64_t columns, float* total) {
  for (std::int64_t i = 0; i < rows; i += kRowGroup)
    AddGroup(x + i * columns, std::min(kRowGroup, rows - i), columns, total);
}

}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {

HWY_EXPORT(FinishRows);
HWY_EXPORT(ReluInPlace);
HWY_EXPORT(AddRows);

void finish_rows(float* y, const float* bias, std::int64_t rows, std::int64_t columns, bool relu) {
  if (bias == nullptr && !relu) return;
  HWY_DYNAMIC_DISPATCH(FinishRows)(y, bias, rows, columns, relu);
}

void finish_rows(double* y, const double* bias, std::int64_t rows, std::int64_t columns,
                 bool relu) {
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    if (bias != nullptr) y[i] += bias[i % columns];
    if (relu && y[i] < 0.0) y[i] = 0.0;
  }
}

void relu_in_place(float* y, std::int64_t count) { HWY_DYNAMIC_DISPATCH(ReluInPlace)(y, count); }

// The negative numbers stand between -0 and -inf; beyond are NaNs.
void relu_in_place(BFloat16* y, std::int64_t count) {
  constexpr std::uint16_t kFirst = 0x8001, kLast = 0xff80;
  for (std::int64_t i = 0; i < count; ++i)
    y[i].bits = y[i].bits >= kFirst && y[i].bits <= kLast ? std::uint16_t{0} : y[i].bits;
}

void add_rows(const float* x, std::int64_t rows, std::int64_t columns, float* total) {
  HWY_DYNAMIC_DISPATCH(AddRows)(x, rows, columns, total);
}

void sum_rows(const float* x, std::int64_t rows, std::int64_t columns, float* total) {
  std::fill_n(total, columns, 0.0f);
  add_rows(x, rows, columns, total);
}

void sum_rows(const double* x, std::int64_t rows, std::int64_t columns, double* total) {
  std::fill_n(total, columns, 0.0);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) total[j] += x[i * columns + j];
}

}  // namespace lockstep::kernels
#endif
