// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/pool.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lockstep/ops/pool_attrs.h"

namespace lockstep::kernels {
namespace {

using std::int64_t;

struct Window {
  const AxisWindow &d, &h, &w;
  int64_t x;  // offset of the input plane
  int64_t y;  // offset of the output element
};

template <class F>
void for_each_window(const PoolProblem& p, const F& f) {
  const int64_t plane = p.input[0] * p.input[1] * p.input[2];
  int64_t y = 0;
  for (int64_t i = 0; i < p.planes; ++i)
    for (const AxisWindow& d : p.windows[0])
      for (const AxisWindow& h : p.windows[1])
        for (const AxisWindow& w : p.windows[2]) f(Window{d, h, w, i * plane, y++});
}

// Calls f(x offset of the first, elements) for each row that the window covers.
template <class F>
void for_each_row(const PoolProblem& p, const Window& win, const F& f) {
  for (int64_t d = win.d.first; d < win.d.last; ++d)
    for (int64_t h = win.h.first; h < win.h.last; ++h)
      f(win.x + (d * p.input[1] + h) * p.input[2] + win.w.first, win.w.last - win.w.first);
}

// Position inside the window of the input element at (d, h, w), as oneDNN counts it.
int64_t index_in(const PoolProblem& p, const Window& win, int64_t d, int64_t h, int64_t w) {
  return ((d - win.d.start) * p.kernel[1] + h - win.h.start) * p.kernel[2] + w - win.w.start;
}

bool covers(const AxisWindow& axis, int64_t position) {
  return position >= axis.first && position < axis.last;
}

// Where that element is, or -1: a workspace from outside may hold anything.
int64_t offset_of(const PoolProblem& p, const Window& win, int64_t index) {
  const int64_t w = index % p.kernel[2] + win.w.start;
  const int64_t h = index / p.kernel[2] % p.kernel[1] + win.h.start;
  const int64_t d = index / (p.kernel[2] * p.kernel[1]) + win.d.start;
  if (!covers(win.d, d) || !covers(win.h, h) || !covers(win.w, w)) return -1;
  return win.x + (d * p.input[1] + h) * p.input[2] + w;
}

// The first of equals; a NaN beats everything.
template <class T>
int64_t largest(const PoolProblem& p, const Window& win, const T* x) {
  T best = -std::numeric_limits<T>::infinity();
  int64_t found = -1;
  for (int64_t d = win.d.first; d < win.d.last; ++d)
    for (int64_t h = win.h.first; h < win.h.last; ++h) {
      const T* row = x + win.x + (d * p.input[1] + h) * p.input[2];
      for (int64_t w = win.w.first; w < win.w.last; ++w) {
        if (found >= 0 && !(row[w] > best) && !(std::isnan(row[w]) && !std::isnan(best))) continue;
        best = row[w];
        found = index_in(p, win, d, h, w);
      }
    }
  return found;
}

// Calls f with the workspace as a pointer to its element type.
template <class F>
void with_workspace(const TensorView& workspace, const F& f) {
  if (workspace.dtype == DType::uint8)
    f(workspace.as<std::uint8_t>());
  else
    f(workspace.as<std::int32_t>());
}

template <class T>
void max_forward(const KernelCall& call) {
  const PoolProblem p(call.inputs[0].shape, call.outputs[0].shape, call.attrs.as<PoolAttrs>());
  const T* x = call.inputs[0].as<T>();
  T* y = call.outputs[0].as<T>();
  with_workspace(call.outputs[1], [&](auto* workspace) {
    for_each_window(p, [&](const Window& win) {
      const int64_t index = largest(p, win, x);
      y[win.y] = x[offset_of(p, win, index)];
      workspace[win.y] = static_cast<std::decay_t<decltype(*workspace)>>(index);
    });
  });
}

template <class T>
void max_backward(const KernelCall& call) {
  const TensorView& out = call.outputs[0];
  const PoolProblem p(out.shape, call.inputs[0].shape, call.attrs.as<PoolBackwardAttrs>());
  const T* dy = call.inputs[0].as<T>();
  T* dx = out.as<T>();
  std::fill_n(dx, out.numel(), T(0));
  with_workspace(call.inputs[1], [&](const auto* workspace) {
    for_each_window(p, [&](const Window& win) {
      const int64_t at = offset_of(p, win, workspace[win.y]);
      if (at >= 0) dx[at] += dy[win.y];
    });
  });
}

template <class T>
void max_gather(const KernelCall& call) {
  const PoolProblem p(call.inputs[0].shape, call.outputs[0].shape, call.attrs.as<PoolAttrs>());
  const T* x = call.inputs[0].as<T>();
  T* y = call.outputs[0].as<T>();
  with_workspace(call.inputs[1], [&](const auto* workspace) {
    for_each_window(p, [&](const Window& win) {
      const int64_t at = offset_of(p, win, workspace[win.y]);
      y[win.y] = at >= 0 ? x[at] : T(0);
    });
  });
}

template <class T>
T divisor_of(const Window& win) {
  return static_cast<T>(win.d.divisor * win.h.divisor * win.w.divisor);
}

template <class T>
void average(const PoolProblem& p, const KernelCall& call) {
  const T* x = call.inputs[0].as<T>();
  T* y = call.outputs[0].as<T>();
  for_each_window(p, [&](const Window& win) {
    T total = 0;
    for_each_row(p, win, [&](int64_t at, int64_t count) {
      for (int64_t i = 0; i < count; ++i) total += x[at + i];
    });
    y[win.y] = total / divisor_of<T>(win);
  });
}

template <class T>
void average_backward(const PoolProblem& p, const KernelCall& call) {
  const T* dy = call.inputs[0].as<T>();
  T* dx = call.outputs[0].as<T>();
  std::fill_n(dx, call.outputs[0].numel(), T(0));
  for_each_window(p, [&](const Window& win) {
    const T share = dy[win.y] / divisor_of<T>(win);
    for_each_row(p, win, [&](int64_t at, int64_t count) {
      for (int64_t i = 0; i < count; ++i) dx[at + i] += share;
    });
  });
}

template <class T>
void avg_forward(const KernelCall& call) {
  average<T>({call.inputs[0].shape, call.outputs[0].shape, call.attrs.as<PoolAttrs>()}, call);
}

template <class T>
void avg_backward(const KernelCall& call) {
  average_backward<T>(
      {call.outputs[0].shape, call.inputs[0].shape, call.attrs.as<PoolBackwardAttrs>()}, call);
}

template <class T>
void adaptive_forward(const KernelCall& call) {
  average<T>({call.inputs[0].shape, call.outputs[0].shape}, call);
}

template <class T>
void adaptive_backward(const KernelCall& call) {
  average_backward<T>({call.outputs[0].shape, call.inputs[0].shape}, call);
}

constexpr DTypeSet kDnnlTypes{DType::float32, DType::bfloat16};
constexpr DTypeSet kFloat32{DType::float32};
constexpr DTypeSet kFloat64{DType::float64};

}  // namespace

std::span<const KernelCandidate> max_pool() {
  static constexpr KernelCandidate list[] = {
      {.name = "blocks", .dtypes = kFloat32, .prepare = prepare_blocked_max_pool},
      {.name = "onednn", .dtypes = kDnnlTypes, .prepare = prepare_max_pool},
      {.name = "reference", .dtypes = kFloat32, .direct = max_forward<float>},
      {.name = "reference", .dtypes = kFloat64, .direct = max_forward<double>}};
  return list;
}

std::span<const KernelCandidate> max_pool_backward() {
  static constexpr KernelCandidate list[] = {
      {.name = "blocks", .dtypes = kFloat32, .prepare = prepare_blocked_max_pool_backward},
      {.name = "onednn", .dtypes = kDnnlTypes, .prepare = prepare_max_pool_backward},
      {.name = "reference", .dtypes = kFloat32, .direct = max_backward<float>},
      {.name = "reference", .dtypes = kFloat64, .direct = max_backward<double>}};
  return list;
}

std::span<const KernelCandidate> max_pool_gather() {
  static constexpr KernelCandidate list[] = {
      {.name = "reference", .dtypes = kFloat32, .direct = max_gather<float>},
      {.name = "reference", .dtypes = kFloat64, .direct = max_gather<double>}};
  return list;
}

std::span<const KernelCandidate> avg_pool() {
  static constexpr KernelCandidate list[] = {
      {.name = "onednn", .dtypes = kDnnlTypes, .prepare = prepare_avg_pool},
      {.name = "reference", .dtypes = kFloat32, .direct = avg_forward<float>},
      {.name = "reference", .dtypes = kFloat64, .direct = avg_forward<double>}};
  return list;
}

std::span<const KernelCandidate> avg_pool_backward() {
  static constexpr KernelCandidate list[] = {
      {.name = "onednn", .dtypes = kDnnlTypes, .prepare = prepare_avg_pool_backward},
      {.name = "reference", .dtypes = kFloat32, .direct = avg_backward<float>},
      {.name = "reference", .dtypes = kFloat64, .direct = avg_backward<double>}};
  return list;
}

std::span<const KernelCandidate> adaptive_avg_pool() {
  static constexpr KernelCandidate list[] = {
      {.name = "windows", .dtypes = kFloat32, .direct = adaptive_forward<float>},
      {.name = "windows", .dtypes = kFloat64, .direct = adaptive_forward<double>}};
  return list;
}

std::span<const KernelCandidate> adaptive_avg_pool_backward() {
  static constexpr KernelCandidate list[] = {
      {.name = "windows", .dtypes = kFloat32, .direct = adaptive_backward<float>},
      {.name = "windows", .dtypes = kFloat64, .direct = adaptive_backward<double>}};
  return list;
}

}  // namespace lockstep::kernels
