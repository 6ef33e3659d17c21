// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "lockstep/ops/cpu/interpolate_axes.h"
#include "lockstep/ops/cpu/resample.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lockstep/ops/cpu/interpolate.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

// Rows are the unit. Forward, a row of the input is stretched to the output's width once and kept
// while neighbouring rows of the output need it; the other axes are blends of whole rows. Backward,
// the rows of the gradient that a row of the input had a part in are added up, and the sum is
// gathered to the input's width. Sums follow the order of outputs, whatever the vectors' width.
HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using std::int64_t;

template <class T>
using RowIndex = hwy::MakeSigned<T>;

template <class T>
struct Stretch {  // the last axis, as arrays
  explicit Stretch(const TapAxis& axis) {
    for (const AxisTap& tap : axis.taps) {
      low.push_back(static_cast<RowIndex<T>>(tap.low));
      high.push_back(static_cast<RowIndex<T>>(tap.high));
      weight.push_back(static_cast<T>(tap.weight));
    }
  }
  std::vector<RowIndex<T>> low, high;
  std::vector<T> weight;
};

template <class T>
void stretch_linear(const Stretch<T>& axis, const T* HWY_RESTRICT x, T* HWY_RESTRICT y) {
  const hn::ScalableTag<T> d;
  const hn::RebindToSigned<decltype(d)> di;
  const std::size_t count = axis.low.size(), lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto low = hn::GatherIndex(d, x, hn::LoadU(di, axis.low.data() + i));
    const auto high = hn::GatherIndex(d, x, hn::LoadU(di, axis.high.data() + i));
    const auto w = hn::LoadU(d, axis.weight.data() + i);
    const auto rest = hn::Sub(hn::Set(d, T{1}), w);
    hn::StoreU(hn::Add(hn::Mul(low, rest), hn::Mul(high, w)), d, y + i);
  }
  for (; i < count; ++i)
    y[i] = x[axis.low[i]] * (T{1} - axis.weight[i]) + x[axis.high[i]] * axis.weight[i];
}

template <class T>
void stretch_nearest(const Stretch<T>& axis, const T* HWY_RESTRICT x, T* HWY_RESTRICT y) {
  const hn::ScalableTag<T> d;
  const hn::RebindToSigned<decltype(d)> di;
  const std::size_t count = axis.low.size(), lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(hn::GatherIndex(d, x, hn::LoadU(di, axis.low.data() + i)), d, y + i);
  for (; i < count; ++i) y[i] = x[axis.low[i]];
}

template <class T>
void blend_rows(const T* low, const T* high, T weight, int64_t count, T* y) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const T rest = T{1} - weight;
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(hn::Add(hn::Mul(hn::LoadU(d, low + i), hn::Set(d, rest)),
                       hn::Mul(hn::LoadU(d, high + i), hn::Set(d, weight))),
               d, y + i);
  for (; i < count; ++i) y[i] = low[i] * rest + high[i] * weight;
}

// Two stretched rows of one slice; a new one takes the place of that used longer ago.
template <class T>
class RowCache {
 public:
  RowCache(const Stretch<T>& axis, bool same, int64_t width) : axis_(axis), same_(same) {
    for (std::vector<T>& row : rows_) row.resize(static_cast<std::size_t>(width));
  }
  void forget() { of_[0] = of_[1] = nullptr; }
  const T* get(const T* source) {
    if (same_) return source;
    std::size_t slot = of_[0] == source ? 0 : 1;
    if (of_[slot] != source) {
      slot = 1 - last_;
      stretch_linear(axis_, source, rows_[slot].data());
      of_[slot] = source;
    }
    last_ = slot;
    return rows_[slot].data();
  }

 private:
  const Stretch<T>& axis_;
  bool same_;
  std::vector<T> rows_[2];
  const T* of_[2] = {nullptr, nullptr};
  std::size_t last_ = 0;
};

template <class T>
void linear_plane(const ResampleProblem& p, const T* x, RowCache<T>* caches, T* buffer, T* y) {
  const TapAxis &deep = p.axes[0], &tall = p.axes[1], &wide = p.axes[2];
  const auto row_of = [&](int64_t d, int64_t h) { return x + (d * tall.input + h) * wide.input; };
  const auto slice_row = [&](RowCache<T>& cache, int64_t d, const AxisTap& h, T* to) HWY_ATTR {
    const T* low = cache.get(row_of(d, h.low));
    if (tall.same) {
      std::copy_n(low, wide.output, to);
      return;
    }
    blend_rows(low, cache.get(row_of(d, h.high)), static_cast<T>(h.weight), wide.output, to);
  };
  for (const AxisTap& d : deep.taps)
    for (const AxisTap& h : tall.taps) {
      slice_row(caches[0], d.low, h, y);
      if (!deep.same) {
        slice_row(caches[1], d.high, h, buffer);
        blend_rows(y, buffer, static_cast<T>(d.weight), wide.output, y);
      }
      y += wide.output;
    }
}

// Rows of the output that come of one row of the input are copies.
template <class T>
void nearest_plane(const ResampleProblem& p, const Stretch<T>& axis, const T* x, T* y) {
  const TapAxis &deep = p.axes[0], &tall = p.axes[1], &wide = p.axes[2];
  const T* last = nullptr;
  for (const AxisTap& d : deep.taps)
    for (const AxisTap& h : tall.taps) {
      const T* source = x + (d.low * tall.input + h.low) * wide.input;
      if (wide.same)
        std::copy_n(source, wide.output, y);
      else if (source == last)
        std::copy_n(y - wide.output, wide.output, y);
      else
        stretch_nearest(axis, source, y);
      last = source;
      y += wide.output;
    }
}

template <class T>
void interpolate_forward(const KernelCall& call) {
  const auto& attrs = call.attrs.as<InterpolateAttrs>();
  const ResampleProblem p(call.inputs[0].shape, call.outputs[0].shape, attrs.mode,
                          attrs.align_corners, attrs.scale);
  const Stretch<T> axis(p.axes[2]);
  const int64_t in = p.axes[0].input * p.axes[1].input * p.axes[2].input;
  const int64_t out = p.axes[0].output * p.axes[1].output * p.axes[2].output;
  const T* x = call.inputs[0].as<T>();
  T* y = call.outputs[0].as<T>();
  RowCache<T> caches[2] = {{axis, p.axes[2].same, p.axes[2].output},
                           {axis, p.axes[2].same, p.axes[2].output}};
  std::vector<T> buffer(static_cast<std::size_t>(p.axes[2].output));
  for (int64_t i = 0; i < p.planes; ++i) {
    if (!p.linear) {
      nearest_plane(p, axis, x + i * in, y + i * out);
      continue;
    }
    for (RowCache<T>& cache : caches) cache.forget();
    linear_plane(p, x + i * in, caches, buffer.data(), y + i * out);
  }
}

template <class T>
struct Gathers {  // the last axis backwards: share k of every input, -1 where it has none
  Gathers(const ShareAxis& axis) : inputs(axis.shares.size()) {
    for (std::size_t k = 0; k < axis.most; ++k)
      for (const auto& shares : axis.shares) {
        const bool there = k < shares.size();
        from.push_back(static_cast<RowIndex<T>>(there ? shares[k].output : -1));
        weight.push_back(static_cast<T>(there ? shares[k].weight : 0.0));
      }
  }
  std::size_t inputs;
  std::vector<RowIndex<T>> from;
  std::vector<T> weight;
};

template <class T>
void gather_shares(const Gathers<T>& axis, const T* HWY_RESTRICT sums, T* HWY_RESTRICT dx) {
  const hn::ScalableTag<T> d;
  const hn::RebindToSigned<decltype(d)> di;
  const std::size_t count = axis.inputs, lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    auto total = hn::Zero(d);
    for (std::size_t k = i; k < axis.from.size(); k += count) {
      const auto from = hn::LoadU(di, axis.from.data() + k);
      const auto there = hn::Gt(from, hn::Set(di, -1));
      const auto value = hn::GatherIndex(d, sums, hn::IfThenElseZero(there, from));
      const auto part = hn::Mul(value, hn::LoadU(d, axis.weight.data() + k));
      total = hn::Add(total, hn::IfThenElseZero(hn::RebindMask(d, there), part));
    }
    hn::StoreU(total, d, dx + i);
  }
  for (; i < count; ++i) {
    T total = 0;
    for (std::size_t k = i; k < axis.from.size(); k += count)
      if (axis.from[k] >= 0) total += sums[axis.from[k]] * axis.weight[k];
    dx[i] = total;
  }
}

template <class T>
void add_weighted_row(const T* HWY_RESTRICT dy, T weight, bool first, int64_t count,
                      T* HWY_RESTRICT sums) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto part = hn::Mul(hn::LoadU(d, dy + i), hn::Set(d, weight));
    hn::StoreU(first ? part : hn::Add(hn::LoadU(d, sums + i), part), d, sums + i);
  }
  for (; i < count; ++i) sums[i] = first ? dy[i] * weight : sums[i] + dy[i] * weight;
}

template <class T>
void interpolate_backward_rows(const KernelCall& call) {
  const auto& attrs = call.attrs.as<InterpolateBackwardAttrs>();
  const ResampleProblem p(call.outputs[0].shape, call.inputs[0].shape, attrs.mode,
                          attrs.align_corners, attrs.scale);
  const TapAxis &deep = p.axes[0], &tall = p.axes[1], &wide = p.axes[2];
  const ShareAxis slices = shares_of(deep, p.linear), rows = shares_of(tall, p.linear);
  const Gathers<T> gathers(shares_of(wide, p.linear));
  std::vector<T> sums(static_cast<std::size_t>(wide.output));
  const T* dy = call.inputs[0].as<T>();
  T* dx = call.outputs[0].as<T>();
  for (int64_t i = 0; i < p.planes; ++i) {
    for (const auto& slice : slices.shares)
      for (const auto& row : rows.shares) {
        T* total = wide.same ? dx : sums.data();
        if (slice.empty() || row.empty()) std::fill_n(total, wide.output, T{0});
        bool first = true;
        for (const ShareAxis::Share& d : slice)
          for (const ShareAxis::Share& h : row) {
            add_weighted_row(dy + (d.output * tall.output + h.output) * wide.output,
                             static_cast<T>(d.weight * h.weight), first, wide.output, total);
            first = false;
          }
        if (!wide.same) gather_shares(gathers, sums.data(), dx);
        dx += wide.input;
      }
    dy += deep.output * tall.output * wide.output;
  }
}

void RunInterpolate(const KernelCall& call) {
  call.outputs[0].dtype == DType::float32 ? interpolate_forward<float>(call)
                                          : interpolate_forward<double>(call);
}
void RunInterpolateBackward(const KernelCall& call) {
  call.outputs[0].dtype == DType::float32 ? interpolate_backward_rows<float>(call)
                                          : interpolate_backward_rows<double>(call);
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {
namespace {

HWY_EXPORT(RunInterpolate);
HWY_EXPORT(RunInterpolateBackward);

constexpr DTypeSet kTypes{DType::float32, DType::float64};

void run_forward(const KernelCall& call) { HWY_DYNAMIC_DISPATCH(RunInterpolate)(call); }
void run_backward(const KernelCall& call) { HWY_DYNAMIC_DISPATCH(RunInterpolateBackward)(call); }

}  // namespace

std::span<const KernelCandidate> interpolate() {
  static constexpr KernelCandidate list[] = {{"rows", kTypes, run_forward}};
  return list;
}

std::span<const KernelCandidate> interpolate_backward() {
  static constexpr KernelCandidate list[] = {{"rows", kTypes, run_backward}};
  return list;
}

}  // namespace lockstep::kernels
#endif
