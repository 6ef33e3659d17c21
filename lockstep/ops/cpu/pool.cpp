// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/pool.h"

#include <algorithm>
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

bool covers(const AxisWindow& axis, int64_t position) {
  return position >= axis.first && position < axis.last;
}

// Where the element at that position of the window is (counted as oneDNN does), or -1: a workspace
// from outside may hold anything.
int64_t offset_of(const PoolProblem& p, const Window& win, int64_t index) {
  const int64_t w = index % p.kernel[2] * p.dilation[2] + win.w.start;
  const int64_t h = index / p.kernel[2] % p.kernel[1] * p.dilation[1] + win.h.start;
  const int64_t d = index / (p.kernel[2] * p.kernel[1]) * p.dilation[0] + win.d.start;
  if (!covers(win.d, d) || !covers(win.h, h) || !covers(win.w, w)) return -1;
  return win.x + (d * p.input[1] + h) * p.input[2] + w;
}

// Calls f with the workspace as a pointer to its element type.
template <class F>
void with_workspace(const TensorView& workspace, const F& f) {
  if (workspace.dtype == DType::uint8)
    f(workspace.as<std::uint8_t>());
  else
    f(workspace.as<std::int32_t>());
}

// The last axis as a whole: output i reads input i * stride - padding under kernel element 0.
struct RowSteps {
  explicit RowSteps(const std::vector<AxisWindow>& windows)
      : padding(-windows[0].start),
        stride(windows.size() > 1 ? windows[1].start - windows[0].start : 1) {}
  int64_t padding, stride;
};

// Outputs [first, last) meet the input under the kernel element that is `k` from its first.
std::pair<int64_t, int64_t> outputs_under(const PoolProblem& p, const RowSteps& steps, int64_t k) {
  const auto ceil_div = [](int64_t a, int64_t b) { return a > 0 ? (a + b - 1) / b : 0; };
  const int64_t first = ceil_div(steps.padding - k, steps.stride);
  const int64_t last = ceil_div(p.input[2] + steps.padding - k, steps.stride);
  return {first, std::min(last, p.output[2])};
}

// Keeps the first of equals; a NaN beats everything. kStride 0: known at run time only.
template <int kStride, class T>
void take_larger(const T* x, int64_t stride, int64_t count, std::int32_t index, T* best,
                 std::int32_t* found) {
  for (int64_t i = 0; i < count; ++i) {
    const T value = x[i * (kStride == 0 ? stride : kStride)];
    const bool larger = (value > best[i]) | ((value != value) & (best[i] == best[i]));
    best[i] = larger ? value : best[i];
    found[i] = larger ? index : found[i];
  }
}

// One row of outputs: whole rows of input are compared, so that the loops are long.
template <class T>
void max_of_row(const PoolProblem& p, const RowSteps& steps, const Window& win, const T* x, T* best,
                std::int32_t* found) {
  const auto index_of = [&](int64_t d, int64_t h) {
    const int64_t slice = (d - win.d.start) / p.dilation[0],
                  row = (h - win.h.start) / p.dilation[1];
    return (slice * p.kernel[1] + row) * p.kernel[2];
  };
  for (int64_t i = 0; i < p.output[2]; ++i) {
    const AxisWindow& w = p.windows[2][static_cast<std::size_t>(i)];
    best[i] = -std::numeric_limits<T>::infinity();
    found[i] = static_cast<std::int32_t>(index_of(win.d.first, win.h.first) +
                                         (w.first - w.start) / p.dilation[2]);
  }
  for (int64_t d = win.d.first; d < win.d.last; d += p.dilation[0])
    for (int64_t h = win.h.first; h < win.h.last; h += p.dilation[1])
      for (int64_t k = 0; k < p.kernel[2]; ++k) {
        const int64_t along = k * p.dilation[2];
        const auto [first, last] = outputs_under(p, steps, along);
        if (first >= last) continue;
        const T* row =
            x + (d * p.input[1] + h) * p.input[2] + first * steps.stride - steps.padding + along;
        const auto take = steps.stride == 1   ? take_larger<1, T>
                          : steps.stride == 2 ? take_larger<2, T>
                                              : take_larger<0, T>;
        take(row, steps.stride, last - first, static_cast<std::int32_t>(index_of(d, h) + k),
             best + first, found + first);
      }
}

template <class T>
void max_forward(const KernelCall& call) {
  const PoolProblem p(call.inputs[0].shape, call.outputs[0].shape, call.attrs.as<PoolAttrs>());
  const RowSteps steps(p.windows[2]);
  const int64_t plane = p.input[0] * p.input[1] * p.input[2];
  const T* x = call.inputs[0].as<T>();
  T* y = call.outputs[0].as<T>();
  std::vector<std::int32_t> found(static_cast<std::size_t>(p.output[2]));
  with_workspace(call.outputs[1], [&](auto* workspace) {
    using Index = std::decay_t<decltype(*workspace)>;
    for (int64_t i = 0; i < p.planes; ++i)
      for (const AxisWindow& d : p.windows[0])
        for (const AxisWindow& h : p.windows[1]) {
          max_of_row(p, steps, Window{d, h, p.windows[2][0], 0, 0}, x + i * plane, y, found.data());
          workspace = std::transform(found.begin(), found.end(), workspace,
                                     [](std::int32_t v) { return static_cast<Index>(v); });
          y += p.output[2];
        }
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

// Of each column of a plane, over the rows that a window covers: the largest and the first row that
// has it. A NaN beats everything.
template <class T>
struct Columns {
  explicit Columns(int64_t width)
      : best(static_cast<std::size_t>(width)), row(static_cast<std::size_t>(width)) {}
  std::vector<T> best;
  std::vector<std::int32_t> row;
};

template <class T>
void look_down(const PoolProblem& p, const AxisWindow& d, const AxisWindow& h, const T* plane,
               Columns<T>& columns) {
  const int64_t width = p.input[2], first = d.first * p.input[1] + h.first;
  std::copy_n(plane + first * width, width, columns.best.begin());
  std::fill(columns.row.begin(), columns.row.end(), static_cast<std::int32_t>(first));
  for (int64_t slice = d.first; slice < d.last; ++slice)
    for (int64_t i = h.first; i < h.last; ++i) {
      const int64_t row = slice * p.input[1] + i;
      if (row != first)
        take_larger<1>(plane + row * width, 1, width, static_cast<std::int32_t>(row),
                       columns.best.data(), columns.row.data());
    }
}

// Which of the columns has the largest; of equals the one in the first row, then the first of all.
template <class T>
int64_t best_column(const Columns<T>& columns, const AxisWindow& w) {
  int64_t found = w.first;
  T best = columns.best[static_cast<std::size_t>(found)];
  std::int32_t row = columns.row[static_cast<std::size_t>(found)];
  for (int64_t i = w.first + 1; i < w.last; ++i) {
    const T value = columns.best[static_cast<std::size_t>(i)];
    const std::int32_t at = columns.row[static_cast<std::size_t>(i)];
    const bool nan = value != value, best_nan = best != best;
    const bool larger = (value > best) | (nan & !best_nan);
    const bool earlier = ((value == best) | (nan & best_nan)) & (at < row);
    const bool take = larger | earlier;
    best = take ? value : best;
    row = take ? at : row;
    found = take ? i : found;
  }
  return found;
}

// The columns of all windows beside each other are looked down at once, so that the loops are long.
template <class T>
void adaptive_max(const KernelCall& call) {
  const PoolProblem p(call.inputs[0].shape, call.outputs[0].shape);
  const int64_t plane = p.input[0] * p.input[1] * p.input[2];
  const T* x = call.inputs[0].as<T>();
  T* y = call.outputs[0].as<T>();
  int64_t* indices = call.outputs[1].as<int64_t>();
  Columns<T> columns(p.input[2]);
  for (int64_t i = 0; i < p.planes; ++i, x += plane)
    for (const AxisWindow& d : p.windows[0])
      for (const AxisWindow& h : p.windows[1]) {
        look_down(p, d, h, x, columns);
        for (const AxisWindow& w : p.windows[2]) {
          const int64_t found = best_column(columns, w);
          *y++ = columns.best[static_cast<std::size_t>(found)];
          *indices++ = columns.row[static_cast<std::size_t>(found)] * p.input[2] + found;
        }
      }
}

constexpr DTypeSet kDnnlTypes{DType::float32, DType::bfloat16};
constexpr DTypeSet kFloat32{DType::float32};
constexpr DTypeSet kFloat64{DType::float64};

}  // namespace

std::span<const KernelCandidate> max_pool() {
  static constexpr KernelCandidate list[] = {
      {.name = "blocks", .dtypes = kDnnlTypes, .prepare = prepare_blocked_max_pool},
      {.name = "rows", .dtypes = kFloat32, .direct = max_forward<float>},
      {.name = "rows", .dtypes = kFloat64, .direct = max_forward<double>}};
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

std::span<const KernelCandidate> adaptive_max_pool() {
  static constexpr KernelCandidate list[] = {
      {.name = "windows", .dtypes = kFloat32, .direct = adaptive_max<float>},
      {.name = "windows", .dtypes = kFloat64, .direct = adaptive_max<double>}};
  return list;
}

}  // namespace lockstep::kernels
