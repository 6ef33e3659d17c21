// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/pool_blocks.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lockstep/ops/cpu/pool_blocks.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using std::int64_t;

struct Window {
  const AxisWindow &d, &h, &w;
};

// Calls f(output position, window) for one plane.
template <class F>
HWY_INLINE void for_each_window(const PoolProblem& p, const F& f) {
  int64_t at = 0;
  for (const AxisWindow& d : p.windows[0])
    for (const AxisWindow& h : p.windows[1])
      for (const AxisWindow& w : p.windows[2]) f(at++, Window{d, h, w});
}

// Calls f(input position, index in the window) for what the window covers.
template <class F>
HWY_INLINE void for_each_position(const PoolProblem& p, const Window& win, const F& f) {
  const int64_t first = (win.w.first - win.w.start) / p.dilation[2];
  for (int64_t d = win.d.first; d < win.d.last; d += p.dilation[0])
    for (int64_t h = win.h.first; h < win.h.last; h += p.dilation[1]) {
      const int64_t row = (d * p.input[1] + h) * p.input[2];
      const int64_t slice = (d - win.d.start) / p.dilation[0];
      int64_t index = (slice * p.kernel[1] + (h - win.h.start) / p.dilation[1]) * p.kernel[2];
      index += first;
      for (int64_t w = win.w.first; w < win.w.last; w += p.dilation[2]) f(row + w, index++);
    }
}

template <class DI>
HWY_INLINE hn::Vec<DI> repeat_index(DI di, int64_t index) {
  return hn::Set(di, static_cast<std::int32_t>(index));
}

template <class D>
HWY_INLINE hn::Vec<D> load_floats(D d, const float* from) {
  return hn::LoadU(d, from);
}
template <class D>
HWY_INLINE hn::Vec<D> load_floats(D d, const hwy::bfloat16_t* from) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<hwy::bfloat16_t, D>(), from));
}
template <class D>
HWY_INLINE void store_floats(D d, hn::Vec<D> values, float* to) {
  hn::StoreU(values, d, to);
}
template <class D>
HWY_INLINE void store_floats(D, hn::Vec<D> values, hwy::bfloat16_t* to) {
  const hn::Rebind<hwy::bfloat16_t, D> db;
  hn::StoreU(hn::DemoteTo(db, values), db, to);
}

// The first of equals, and a NaN where there is one, as far as `valid` lanes go.
template <class D, class T>
HWY_INLINE void largest_of_window(D d, const BlockedPool& pool, const Window& win, int64_t valid,
                                  const T* x, T* y, std::uint8_t* workspace) {
  const hn::RebindToSigned<D> di;
  const hn::Rebind<std::uint8_t, D> du;
  auto best = hn::Set(d, -hwy::HighestValue<float>());
  auto found = hn::Set(di, -1);
  for_each_position(pool.problem, win, [&](int64_t at, int64_t index) HWY_ATTR {
    const auto value = load_floats(d, x + at * pool.block);
    const auto fresh = hn::RebindMask(d, hn::Lt(found, hn::Zero(di)));
    const auto larger = hn::Or(hn::Or(hn::Gt(value, best), hn::IsNaN(value)), fresh);
    best = hn::IfThenElse(larger, value, best);
    found = hn::IfThenElse(hn::RebindMask(di, larger), repeat_index(di, index), found);
  });
  store_floats(d, best, y);
  if (workspace == nullptr) return;
  const auto inside = hn::Lt(hn::Iota(di, 0), repeat_index(di, valid));
  hn::StoreU(hn::DemoteTo(du, hn::IfThenElseZero(inside, found)), du, workspace);
}

template <int kBlock, class T>
HWY_INLINE void forward_plane(const BlockedPool& pool, int64_t channels, const T* x, T* y,
                              std::uint8_t* workspace) {
  const hn::CappedTag<float, kBlock> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for_each_window(pool.problem, [&](int64_t at, const Window& win) HWY_ATTR {
    for (int64_t i = 0; i < kBlock; i += lanes)
      largest_of_window(d, pool, win, channels - i, x + i, y + at * kBlock + i,
                        workspace == nullptr ? nullptr : workspace + at * kBlock + i);
  });
}

// Windows that do not meet write each element once; where they leave none out, zeros are not needed
// before.
struct Coverage {
  bool disjoint = true, complete = true;
};
Coverage coverage_of(const PoolProblem& p) {
  Coverage result;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    int64_t end = 0;
    for (const AxisWindow& window : p.windows[axis]) {
      if (window.first < end) result.disjoint = false;
      if (window.first > end) result.complete = false;
      end = std::max(end, window.last);
    }
    if (end < p.input[axis] || p.dilation[axis] > 1) result.complete = false;
  }
  return result;
}

template <int kBlock, bool kAdd>
HWY_INLINE void backward_plane(const BlockedPool& pool, const float* dy,
                               const std::uint8_t* workspace, float* dx) {
  const hn::CappedTag<float, kBlock> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<std::uint8_t, decltype(d)> du;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for_each_window(pool.problem, [&](int64_t at, const Window& win) HWY_ATTR {
    for (int64_t i = 0; i < kBlock; i += lanes) {
      const auto grad = hn::LoadU(d, dy + at * kBlock + i);
      const auto chosen = hn::PromoteTo(di, hn::LoadU(du, workspace + at * kBlock + i));
      for_each_position(pool.problem, win, [&](int64_t to, int64_t index) HWY_ATTR {
        const auto here = hn::RebindMask(d, hn::Eq(chosen, repeat_index(di, index)));
        const auto share = hn::IfThenElseZero(here, grad);
        float* target = dx + to * kBlock + i;
        hn::StoreU(kAdd ? hn::Add(hn::LoadU(d, target), share) : share, d, target);
      });
    }
  });
}

int64_t volume(const PoolProblem::Sizes& sizes) { return sizes[0] * sizes[1] * sizes[2]; }

template <int kBlock, class T>
void forward_planes(const BlockedPool& pool, const T* x, T* y, std::uint8_t* workspace) {
  const int64_t in = volume(pool.problem.input) * kBlock,
                out = volume(pool.problem.output) * kBlock;
  for (int64_t i = 0; i < pool.problem.planes; ++i) {
    const bool last = i % pool.image_blocks == pool.image_blocks - 1;
    forward_plane<kBlock>(pool, last ? pool.last_channels : kBlock, x + i * in, y + i * out,
                          workspace == nullptr ? nullptr : workspace + i * out);
  }
}

template <int kBlock>
void backward_planes(const BlockedPool& pool, const float* dy, const std::uint8_t* workspace,
                     float* dx) {
  const int64_t in = volume(pool.problem.input) * kBlock,
                out = volume(pool.problem.output) * kBlock;
  const Coverage coverage = coverage_of(pool.problem);
  for (int64_t i = 0; i < pool.problem.planes; ++i) {
    if (!coverage.disjoint || !coverage.complete) std::fill_n(dx + i * in, in, 0.0f);
    if (coverage.disjoint)
      backward_plane<kBlock, false>(pool, dy + i * out, workspace + i * out, dx + i * in);
    else
      backward_plane<kBlock, true>(pool, dy + i * out, workspace + i * out, dx + i * in);
  }
}

template <class T>
void forward_blocks(const BlockedPool& pool, const std::byte* from, std::byte* to,
                    std::uint8_t* workspace) {
  const T* x = reinterpret_cast<const T*>(from);
  T* y = reinterpret_cast<T*>(to);
  pool.block == 8 ? forward_planes<8>(pool, x, y, workspace)
                  : forward_planes<16>(pool, x, y, workspace);
}

void MaxPoolBlocks(const BlockedPool& pool, DType dtype, const std::byte* x, std::byte* y,
                   std::uint8_t* workspace) {
  dtype == DType::float32 ? forward_blocks<float>(pool, x, y, workspace)
                          : forward_blocks<hwy::bfloat16_t>(pool, x, y, workspace);
}

void MaxPoolBlocksBackward(const BlockedPool& pool, const float* dy, const std::uint8_t* workspace,
                           float* dx) {
  pool.block == 8 ? backward_planes<8>(pool, dy, workspace, dx)
                  : backward_planes<16>(pool, dy, workspace, dx);
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {

HWY_EXPORT(MaxPoolBlocks);
HWY_EXPORT(MaxPoolBlocksBackward);

void max_pool_blocks(const BlockedPool& pool, DType dtype, const std::byte* x, std::byte* y,
                     std::uint8_t* workspace) {
  HWY_DYNAMIC_DISPATCH(MaxPoolBlocks)(pool, dtype, x, y, workspace);
}

void max_pool_blocks_backward(const BlockedPool& pool, const float* dy,
                              const std::uint8_t* workspace, float* dx) {
  HWY_DYNAMIC_DISPATCH(MaxPoolBlocksBackward)(pool, dy, workspace, dx);
}

}  // namespace lockstep::kernels
#endif
