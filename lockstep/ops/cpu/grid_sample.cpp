// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "lockstep/ops/cpu/resample.h"
#include "lockstep/ops/resample_attrs.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lockstep/ops/cpu/grid_sample.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

// Places are taken in blocks: their corners and weights are worked out once and used for every
// channel, a vector of places at a time.
HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using std::int64_t;

template <class T>
using GridIndex = hwy::MakeSigned<T>;

constexpr int64_t kPlaceBlock = 256;

// A coordinate of the grid in elements, and how fast it moves with the grid.
template <class T>
struct GridPlace {
  T at, slope;
};

// There and back between the ends, as often as it takes.
template <class T>
void reflect_place(GridPlace<T>& place, T size, bool align_corners) {
  const T least = align_corners ? T{0} : T{-0.5}, span = align_corners ? size - 1 : size;
  if (!(span > 0)) {
    place = {place.at * 0, T{0}};
    return;
  }
  const T off = place.at - least, distance = std::abs(off);
  const T turns = std::floor(distance / span);
  const T rest = distance - turns * span;
  const bool odd = std::fmod(turns, T{2}) > T{0.5};
  place.at = (odd ? span - rest : rest) + least;
  if ((off < 0) != odd) place.slope = -place.slope;
}

template <class T>
GridPlace<T> place_of(T g, T size, const GridSampleAttrs& attrs) {
  GridPlace<T> place{(g + 1) * ((size - 1) / 2), (size - 1) / 2};
  if (!attrs.align_corners) place = {((g + 1) * size - 1) / 2, size / 2};
  if (attrs.padding == "reflection") reflect_place(place, size, attrs.align_corners);
  if (attrs.padding == "zeros") return place;
  if (!(place.at > 0 && place.at < size - 1)) place.slope = 0;
  if (place.at < 0) place.at = 0;
  if (place.at > size - 1) place.at = size - 1;
  return place;
}

template <class T>
struct GridProblem {
  GridProblem(const TensorView& x, const TensorView& grid, const GridSampleAttrs& options)
      : attrs(options),
        nearest(options.mode == "nearest"),
        corners(nearest ? 1 : 4),
        images(x.shape[0]),
        channels(x.shape[1]),
        height(x.shape[2]),
        width(x.shape[3]),
        places(grid.shape[1] * grid.shape[2]) {}
  const GridSampleAttrs& attrs;
  bool nearest;
  int corners;
  int64_t images, channels, height, width, places;
};

// Corner k of place i: its offset in a plane, -1 outside, and its weight with the slopes of that.
template <class T>
struct PlaceBlock {
  HWY_ALIGN GridIndex<T> at[4][kPlaceBlock];
  HWY_ALIGN T weight[4][kPlaceBlock], slope_x[4][kPlaceBlock], slope_y[4][kPlaceBlock];
  T scale_x[kPlaceBlock], scale_y[kPlaceBlock];
  int64_t count;

  void set(const GridProblem<T>& p, const T* grid, int64_t places) {
    count = places;
    const T w = static_cast<T>(p.width), h = static_cast<T>(p.height);
    for (int64_t i = 0; i < count; ++i) {
      const GridPlace<T> x = place_of(grid[2 * i], w, p.attrs),
                         y = place_of(grid[2 * i + 1], h, p.attrs);
      scale_x[i] = x.slope;
      scale_y[i] = y.slope;
      p.nearest ? set_nearest(p, i, x.at, y.at) : set_corners(p, i, x.at, y.at);
    }
  }

  // A place that is no number makes one that is none of what is found there.
  void set_nearest(const GridProblem<T>& p, int64_t i, T x, T y) {
    const bool none = x != x || y != y;
    put(p, 0, i, none ? T{0} : std::nearbyint(x), none ? T{0} : std::nearbyint(y),
        none ? x + y : T{1}, T{0}, T{0});
  }

  void set_corners(const GridProblem<T>& p, int64_t i, T x, T y) {
    const bool none = x != x || y != y;
    const T left = none ? T{0} : std::floor(x), top = none ? T{0} : std::floor(y);
    const T fx = x - left, fy = y - top, ex = 1 - fx, ey = 1 - fy;
    put(p, 0, i, left, top, ex * ey, -ey, -ex);
    put(p, 1, i, left + 1, top, fx * ey, ey, -fx);
    put(p, 2, i, left, top + 1, ex * fy, -fy, ex);
    put(p, 3, i, left + 1, top + 1, fx * fy, fy, fx);
  }

  void put(const GridProblem<T>& p, int k, int64_t i, T column, T row, T w, T dx, T dy) {
    const bool inside = column >= 0 && column <= static_cast<T>(p.width - 1) && row >= 0 &&
                        row <= static_cast<T>(p.height - 1);
    at[k][i] = inside ? static_cast<GridIndex<T>>(static_cast<int64_t>(row) * p.width +
                                                  static_cast<int64_t>(column))
                      : -1;
    weight[k][i] = w;
    slope_x[k][i] = dx;
    slope_y[k][i] = dy;
  }
};

// The corner's values, zero outside.
template <class D, class T>
HWY_INLINE hn::Vec<D> values_at(D d, const GridIndex<T>* at, const T* x) {
  const hn::RebindToSigned<D> di;
  const auto index = hn::LoadU(di, at);
  const auto inside = hn::Gt(index, hn::Set(di, -1));
  const auto value = hn::GatherIndex(d, x, hn::IfThenElseZero(inside, index));
  return hn::IfThenElseZero(hn::RebindMask(d, inside), value);
}

template <class D, class T>
HWY_INLINE hn::Vec<D> weighted_values(D d, const GridIndex<T>* at, const T* weight,
                                      hn::Vec<D> value) {
  const hn::RebindToSigned<D> di;
  const auto inside = hn::RebindMask(d, hn::Gt(hn::LoadU(di, at), hn::Set(di, -1)));
  return hn::IfThenElseZero(inside, hn::Mul(hn::LoadU(d, weight), value));
}

template <class T>
void sample_plane(const PlaceBlock<T>& block, int corners, const T* x, T* y) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= block.count; i += lanes) {
    auto total = hn::Zero(d);
    for (int k = 0; k < corners; ++k)
      total = hn::Add(total, weighted_values(d, block.at[k] + i, block.weight[k] + i,
                                             values_at(d, block.at[k] + i, x)));
    hn::StoreU(total, d, y + i);
  }
  for (; i < block.count; ++i) {
    T total = 0;
    for (int k = 0; k < corners; ++k)
      if (block.at[k][i] >= 0) total += block.weight[k][i] * x[block.at[k][i]];
    y[i] = total;
  }
}

template <class T>
void sample_grid(const KernelCall& call) {
  const GridProblem<T> p(call.inputs[0], call.inputs[1], call.attrs.as<GridSampleAttrs>());
  const int64_t plane = p.height * p.width;
  PlaceBlock<T> block;
  for (int64_t n = 0; n < p.images; ++n)
    for (int64_t first = 0; first < p.places; first += kPlaceBlock) {
      block.set(p, call.inputs[1].as<T>() + 2 * (n * p.places + first),
                std::min(kPlaceBlock, p.places - first));
      for (int64_t c = 0; c < p.channels; ++c)
        sample_plane(block, p.corners, call.inputs[0].as<T>() + (n * p.channels + c) * plane,
                     call.outputs[0].as<T>() + (n * p.channels + c) * p.places + first);
    }
}

// What a channel adds to the gradients of the places.
template <class T>
void pull_places(const PlaceBlock<T>& block, int corners, const T* dy, const T* x, T* across,
                 T* down) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= block.count; i += lanes) {
    const auto grad = hn::LoadU(d, dy + i);
    auto sum_x = hn::LoadU(d, across + i), sum_y = hn::LoadU(d, down + i);
    for (int k = 0; k < corners; ++k) {
      const auto pull = hn::Mul(grad, values_at(d, block.at[k] + i, x));
      sum_x = hn::Add(sum_x, hn::Mul(pull, hn::LoadU(d, block.slope_x[k] + i)));
      sum_y = hn::Add(sum_y, hn::Mul(pull, hn::LoadU(d, block.slope_y[k] + i)));
    }
    hn::StoreU(sum_x, d, across + i);
    hn::StoreU(sum_y, d, down + i);
  }
  for (; i < block.count; ++i)
    for (int k = 0; k < corners; ++k) {
      const T pull = block.at[k][i] < 0 ? dy[i] * T{0} : dy[i] * x[block.at[k][i]];
      across[i] += pull * block.slope_x[k][i];
      down[i] += pull * block.slope_y[k][i];
    }
}

template <class T>
void push_values(const PlaceBlock<T>& block, int corners, const T* dy, T* dx) {
  for (int64_t i = 0; i < block.count; ++i)
    for (int k = 0; k < corners; ++k)
      if (block.at[k][i] >= 0) dx[block.at[k][i]] += block.weight[k][i] * dy[i];
}

template <class T>
void sample_grid_backward(const KernelCall& call) {
  const GridProblem<T> p(call.inputs[1], call.inputs[2], call.attrs.as<GridSampleAttrs>());
  const int64_t plane = p.height * p.width;
  std::fill_n(call.outputs[0].as<T>(), call.outputs[0].numel(), T{0});
  PlaceBlock<T> block;
  T across[kPlaceBlock], down[kPlaceBlock];
  for (int64_t n = 0; n < p.images; ++n)
    for (int64_t first = 0; first < p.places; first += kPlaceBlock) {
      const int64_t begin = 2 * (n * p.places + first);
      block.set(p, call.inputs[2].as<T>() + begin, std::min(kPlaceBlock, p.places - first));
      std::fill_n(across, block.count, T{0});
      std::fill_n(down, block.count, T{0});
      for (int64_t c = 0; c < p.channels; ++c) {
        const int64_t at = (n * p.channels + c) * plane;
        const T* dy = call.inputs[0].as<T>() + (n * p.channels + c) * p.places + first;
        push_values(block, p.corners, dy, call.outputs[0].as<T>() + at);
        pull_places(block, p.corners, dy, call.inputs[1].as<T>() + at, across, down);
      }
      T* grid = call.outputs[1].as<T>() + begin;
      for (int64_t i = 0; i < block.count; ++i) {
        grid[2 * i] = across[i] * block.scale_x[i];
        grid[2 * i + 1] = down[i] * block.scale_y[i];
      }
    }
}

void RunGridSample(const KernelCall& call) {
  call.outputs[0].dtype == DType::float32 ? sample_grid<float>(call) : sample_grid<double>(call);
}
void RunGridSampleBackward(const KernelCall& call) {
  call.outputs[0].dtype == DType::float32 ? sample_grid_backward<float>(call)
                                          : sample_grid_backward<double>(call);
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {
namespace {

HWY_EXPORT(RunGridSample);
HWY_EXPORT(RunGridSampleBackward);

constexpr DTypeSet kTypes{DType::float32, DType::float64};

void run_forward(const KernelCall& call) { HWY_DYNAMIC_DISPATCH(RunGridSample)(call); }
void run_backward(const KernelCall& call) { HWY_DYNAMIC_DISPATCH(RunGridSampleBackward)(call); }

}  // namespace

std::span<const KernelCandidate> grid_sample() {
  static constexpr KernelCandidate list[] = {{"simd", kTypes, run_forward}};
  return list;
}

std::span<const KernelCandidate> grid_sample_backward() {
  static constexpr KernelCandidate list[] = {{"simd", kTypes, run_backward}};
  return list;
}

}  // namespace lockstep::kernels
#endif
