// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "lockstep/ops/cpu/norm.h"
#include "lockstep/ops/norm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lockstep/ops/cpu/layer_norm.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef LOCKSTEP_LAYER_NORM_ROWS
#define LOCKSTEP_LAYER_NORM_ROWS
namespace lockstep::kernels {

// x as [rows, columns], and whatever is scaled along its columns.
template <class T>
struct NormRows {
  std::int64_t rows, columns;
  const T* x;
  const T* gamma;
  const T* beta;  // forward only
};

template <class T>
struct NormForward {
  NormRows<T> in;
  double epsilon;
  T* y;
  T* mean;
  T* rstd;
};

template <class T>
struct NormBackward {
  NormRows<T> in;
  const T* dy;
  const T* mean;
  const T* rstd;
  T* dx;
  T* dgamma;
  T* dbeta;
};

}  // namespace lockstep::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Sums f(j) over whole vectors, four sums side by side to hide the latency of an addition.
template <class F>
HWY_INLINE float SumVectors(std::int64_t whole, F&& f) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  std::int64_t j = 0;
  for (; j + 4 * lanes <= whole; j += 4 * lanes) {
    s0 = hn::Add(s0, f(j));
    s1 = hn::Add(s1, f(j + lanes));
    s2 = hn::Add(s2, f(j + 2 * lanes));
    s3 = hn::Add(s3, f(j + 3 * lanes));
  }
  for (; j < whole; j += lanes) s0 = hn::Add(s0, f(j));
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
}

// Rows that come soon are asked for early, a line with each vector of the row at hand: sums within
// a row keep the processor from looking ahead far enough. Reaching beyond the end does no harm.
constexpr std::int64_t kRowsAhead = 2;
HWY_INLINE void Fetch(const float* p, std::int64_t columns) {
  __builtin_prefetch(p + kRowsAhead * columns);
}
HWY_INLINE void FetchToWrite(const float* p, std::int64_t columns) {
  __builtin_prefetch(p + kRowsAhead * columns, 1);
}

HWY_INLINE std::int64_t WholeVectors(std::int64_t count) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(D()));
  return count / lanes * lanes;
}

HWY_INLINE float RowMean(const float* x, std::int64_t n) {
  const std::int64_t whole = WholeVectors(n);
  float sum = SumVectors(whole, [&](std::int64_t j) HWY_ATTR { return hn::LoadU(D(), x + j); });
  for (std::int64_t j = whole; j < n; ++j) sum += x[j];
  return sum / static_cast<float>(n);
}

HWY_INLINE float RowVariance(const float* x, float mean, std::int64_t n) {
  const std::int64_t whole = WholeVectors(n);
  const V centre = hn::Set(D(), mean);
  float sum = SumVectors(whole, [&](std::int64_t j) HWY_ATTR {
    const V c = hn::Sub(hn::LoadU(D(), x + j), centre);
    return hn::Mul(c, c);
  });
  for (std::int64_t j = whole; j < n; ++j) sum += (x[j] - mean) * (x[j] - mean);
  return sum / static_cast<float>(n);
}

void LayerNorm(const NormForward<float>& p) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t n = p.in.columns;
  const std::int64_t whole = WholeVectors(n);
  for (std::int64_t i = 0; i < p.in.rows; ++i) {
    const float* x = p.in.x + i * n;
    float* y = p.y + i * n;
    const float mean = RowMean(x, n);
    const float rstd = 1.0f / std::sqrt(RowVariance(x, mean, n) + static_cast<float>(p.epsilon));
    const V centre = hn::Set(d, mean), scale = hn::Set(d, rstd);
    for (std::int64_t j = 0; j < whole; j += lanes) {
      Fetch(x + j, n);
      FetchToWrite(y + j, n);
      const V normal = hn::Mul(hn::Sub(hn::LoadU(d, x + j), centre), scale);
      hn::StoreU(hn::MulAdd(normal, hn::LoadU(d, p.in.gamma + j), hn::LoadU(d, p.in.beta + j)), d,
                 y + j);
    }
    for (std::int64_t j = whole; j < n; ++j)
      y[j] = (x[j] - mean) * rstd * p.in.gamma[j] + p.in.beta[j];
    p.mean[i] = mean;
    p.rstd[i] = rstd;
  }
}

// One row: adds to dgamma and dbeta, and sums what dx needs.
struct RowSums {
  float grad, grad_normal;  // of dy gamma, and of dy gamma times the normalised x
};

HWY_INLINE RowSums AddRow(const NormBackward<float>& p, std::int64_t i) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t n = p.in.columns;
  const std::int64_t whole = WholeVectors(n);
  const float* x = p.in.x + i * n;
  const float* dy = p.dy + i * n;
  const V centre = hn::Set(d, p.mean[i]), scale = hn::Set(d, p.rstd[i]);
  V grads[2] = {hn::Zero(d), hn::Zero(d)};
  V normals[2] = {hn::Zero(d), hn::Zero(d)};
  const auto step = [&](std::int64_t j, int side) HWY_ATTR {
    const V g = hn::LoadU(d, dy + j);
    const V normal = hn::Mul(hn::Sub(hn::LoadU(d, x + j), centre), scale);
    const V scaled = hn::Mul(g, hn::LoadU(d, p.in.gamma + j));
    grads[side] = hn::Add(grads[side], scaled);
    normals[side] = hn::MulAdd(scaled, normal, normals[side]);
    hn::StoreU(hn::MulAdd(g, normal, hn::LoadU(d, p.dgamma + j)), d, p.dgamma + j);
    hn::StoreU(hn::Add(g, hn::LoadU(d, p.dbeta + j)), d, p.dbeta + j);
  };
  std::int64_t j = 0;
  for (; j + 2 * lanes <= whole; j += 2 * lanes) {
    step(j, 0);
    step(j + lanes, 1);
  }
  for (; j < whole; j += lanes) step(j, 0);
  RowSums sums{hn::GetLane(hn::SumOfLanes(d, hn::Add(grads[0], grads[1]))),
               hn::GetLane(hn::SumOfLanes(d, hn::Add(normals[0], normals[1])))};
  for (; j < n; ++j) {
    const float normal = (x[j] - p.mean[i]) * p.rstd[i];
    sums.grad += dy[j] * p.in.gamma[j];
    sums.grad_normal += dy[j] * p.in.gamma[j] * normal;
    p.dgamma[j] += dy[j] * normal;
    p.dbeta[j] += dy[j];
  }
  return sums;
}

void LayerNormBackward(const NormBackward<float>& p) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t n = p.in.columns;
  const std::int64_t whole = WholeVectors(n);
  std::fill_n(p.dgamma, n, 0.0f);
  std::fill_n(p.dbeta, n, 0.0f);
  for (std::int64_t i = 0; i < p.in.rows; ++i) {
    const RowSums sums = AddRow(p, i);
    const float mean_grad = sums.grad / static_cast<float>(n);
    const float slope = sums.grad_normal / static_cast<float>(n) * p.rstd[i];
    const V centre = hn::Set(d, p.mean[i]), scale = hn::Set(d, p.rstd[i]);
    const V common = hn::Set(d, mean_grad), along = hn::Set(d, slope);
    const float* x = p.in.x + i * n;
    const float* dy = p.dy + i * n;
    float* dx = p.dx + i * n;
    for (std::int64_t j = 0; j < whole; j += lanes) {
      Fetch(x + j, n);
      Fetch(dy + j, n);
      FetchToWrite(dx + j, n);
      const V centred = hn::Sub(hn::LoadU(d, x + j), centre);
      const V grad = hn::MulSub(hn::LoadU(d, dy + j), hn::LoadU(d, p.in.gamma + j), common);
      hn::StoreU(hn::Mul(hn::NegMulAdd(centred, along, grad), scale), d, dx + j);
    }
    for (std::int64_t j = whole; j < n; ++j)
      dx[j] = (dy[j] * p.in.gamma[j] - mean_grad - (x[j] - p.mean[i]) * slope) * p.rstd[i];
  }
}

}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {
namespace {

HWY_EXPORT(LayerNorm);
HWY_EXPORT(LayerNormBackward);

void forward_rows(const NormForward<float>& p) { HWY_DYNAMIC_DISPATCH(LayerNorm)(p); }

void forward_rows(const NormForward<double>& p) {
  const auto n = static_cast<double>(p.in.columns);
  for (std::int64_t i = 0; i < p.in.rows; ++i) {
    const double* x = p.in.x + i * p.in.columns;
    double sum = 0, squares = 0;
    for (std::int64_t j = 0; j < p.in.columns; ++j) sum += x[j];
    const double mean = sum / n;
    for (std::int64_t j = 0; j < p.in.columns; ++j) squares += (x[j] - mean) * (x[j] - mean);
    const double rstd = 1.0 / std::sqrt(squares / n + p.epsilon);
    for (std::int64_t j = 0; j < p.in.columns; ++j)
      p.y[i * p.in.columns + j] = (x[j] - mean) * rstd * p.in.gamma[j] + p.in.beta[j];
    p.mean[i] = mean;
    p.rstd[i] = rstd;
  }
}

void backward_rows(const NormBackward<float>& p) { HWY_DYNAMIC_DISPATCH(LayerNormBackward)(p); }

void backward_rows(const NormBackward<double>& p) {
  const std::int64_t n = p.in.columns;
  std::fill_n(p.dgamma, n, 0.0);
  std::fill_n(p.dbeta, n, 0.0);
  for (std::int64_t i = 0; i < p.in.rows; ++i) {
    const double* dy = p.dy + i * n;
    const auto normal = [&](std::int64_t j) { return (p.in.x[i * n + j] - p.mean[i]) * p.rstd[i]; };
    double grad = 0, grad_normal = 0;
    for (std::int64_t j = 0; j < n; ++j) {
      grad += dy[j] * p.in.gamma[j];
      grad_normal += dy[j] * p.in.gamma[j] * normal(j);
      p.dgamma[j] += dy[j] * normal(j);
      p.dbeta[j] += dy[j];
    }
    for (std::int64_t j = 0; j < n; ++j)
      p.dx[i * n + j] = p.rstd[i] * (dy[j] * p.in.gamma[j] -
                                     (grad + normal(j) * grad_normal) / static_cast<double>(n));
  }
}

std::int64_t row_count(const Shape& x) {
  return Shape(x.span().first(static_cast<std::size_t>(x.rank() - 1))).numel();
}

// Rows of no columns: their mean is 0, as a sum of nothing.
template <class T>
void fill_empty_rows(const NormForward<T>& p) {
  std::fill_n(p.mean, p.in.rows, T(0));
  std::fill_n(p.rstd, p.in.rows, static_cast<T>(1.0 / std::sqrt(p.epsilon)));
}

template <class T>
void run_layer_norm(const KernelCall& call) {
  const TensorView& x = call.inputs[0];
  const NormForward<T> rows{{row_count(x.shape), x.shape.back(), x.as<T>(), call.inputs[1].as<T>(),
                             call.inputs[2].as<T>()},
                            call.attrs.as<EpsilonAttrs>().epsilon,
                            call.outputs[0].as<T>(),
                            call.outputs[1].as<T>(),
                            call.outputs[2].as<T>()};
  if (rows.in.columns == 0)
    fill_empty_rows(rows);
  else
    forward_rows(rows);
}

template <class T>
void run_layer_norm_backward(const KernelCall& call) {
  const TensorView& x = call.inputs[1];
  const NormBackward<T> rows{
      {row_count(x.shape), x.shape.back(), x.as<T>(), call.inputs[2].as<T>(), nullptr},
      call.inputs[0].as<T>(),
      call.inputs[3].as<T>(),
      call.inputs[4].as<T>(),
      call.outputs[0].as<T>(),
      call.outputs[1].as<T>(),
      call.outputs[2].as<T>()};
  if (rows.in.columns > 0) backward_rows(rows);
}

}  // namespace

std::span<const KernelCandidate> layer_norm_kernels() {
  static const KernelCandidate kernels[] = {
      {"rows", {DType::float32}, run_layer_norm<float>},
      {"reference", {DType::float64}, run_layer_norm<double>},
  };
  return kernels;
}

std::span<const KernelCandidate> layer_norm_backward_kernels() {
  static const KernelCandidate kernels[] = {
      {"rows", {DType::float32}, run_layer_norm_backward<float>},
      {"reference", {DType::float64}, run_layer_norm_backward<double>},
  };
  return kernels;
}

}  // namespace lockstep::kernels
#endif
