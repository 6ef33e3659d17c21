// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>

#include "lockstep/ops/resample_attrs.h"
#include "tests/ops/op_cases.h"

namespace lockstep::testing {
namespace {

using std::int64_t;

std::array<int64_t, 3> three(const Shape& shape) {
  std::array<int64_t, 3> result{1, 1, 1};
  std::copy(shape.begin() + 2, shape.end(), result.begin() + (5 - shape.rank()));
  return result;
}

// How much input i counts in output o, along one axis: the definition, one pair at a time.
// An input's step is that of `given` where it is not 0, and else that of the sizes.
double share(const std::string& mode, bool align, double given, int64_t o, int64_t i, int64_t in,
             int64_t out) {
  const bool is_copied = mode == "linear" && in == out;
  const double scale =
      given > 0 && !is_copied ? 1 / given : static_cast<double>(in) / static_cast<double>(out);
  const auto at = static_cast<double>(o), here = static_cast<double>(i);
  const auto last = static_cast<double>(in - 1);
  const auto is_nearest = [&](double place) {
    return std::min(std::floor(place + 1e-9), last) == here ? 1.0 : 0.0;
  };
  if (mode == "nearest") return is_nearest(at * scale);
  if (mode == "nearest_exact") return is_nearest((at + 0.5) * scale);
  double place = (at + 0.5) * scale - 0.5;
  if (align) place = out > 1 ? at * static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0;
  place = std::clamp(place, 0.0, last);
  return std::max(0.0, 1.0 - std::abs(place - here));
}

struct Setting {
  std::string label;
  Shape x, y;
  double scale = 0.0;
};

Tensor naive(const Setting& s, const std::string& mode, bool align, const Tensor& from,
             bool backward) {
  const Tensor to = Tensor::zeros(backward ? s.x : s.y, DType::float64);
  const auto in = three(s.x), out = three(s.y);
  const int64_t in_plane = in[0] * in[1] * in[2], out_plane = out[0] * out[1] * out[2];
  for (int64_t o = 0; o < s.y.numel(); ++o)
    for (int64_t i = 0; i < in_plane; ++i) {
      const std::array<int64_t, 3> a{o / (out[1] * out[2]) % out[0], o / out[2] % out[1],
                                     o % out[2]},
          b{i / (in[1] * in[2]), i / in[2] % in[1], i % in[2]};
      double weight = 1.0;
      for (std::size_t k = 0; k < 3; ++k) {
        const bool is_own = k + static_cast<std::size_t>(s.x.rank()) >= 5;
        weight *= share(mode, align, is_own ? s.scale : 0.0, a[k], b[k], in[k], out[k]);
      }
      const int64_t at = o / out_plane * in_plane + i;
      const auto [source, target] = backward ? std::pair(o, at) : std::pair(at, o);
      to.data<double>()[target] += weight * from.data<double>()[source];
    }
  return to;
}

void add_interpolations(std::vector<OpCase>& rows, const Setting& s) {
  for (const auto& [mode, align] : {std::pair<std::string, bool>("nearest", false),
                                    {"nearest_exact", false},
                                    {"linear", false},
                                    {"linear", true}}) {
    const std::string label = s.label + ", " + mode + (align ? ", corners aligned" : "");
    OpCase forward{.op = "interpolate", .label = label, .inputs = {random_tensor(s.x, 1)}};
    forward.attrs = Attrs::of(InterpolateAttrs{{s.y.begin() + 2, s.y.end()}, mode, align, s.scale});
    forward.reference = [s, mode = mode, align = align](const std::vector<Tensor>& in) {
      return std::vector{naive(s, mode, align, in[0], false)};
    };
    OpCase backward{
        .op = "interpolate_backward", .label = label, .inputs = {random_tensor(s.y, 2)}};
    backward.attrs =
        Attrs::of(InterpolateBackwardAttrs{{s.x.begin() + 2, s.x.end()}, mode, align, s.scale});
    backward.reference = [s, mode = mode, align = align](const std::vector<Tensor>& in) {
      return std::vector{naive(s, mode, align, in[0], true)};
    };
    rows.insert(rows.end(), {forward, backward});
  }
}

// A coordinate in elements, by the definition: reflection is a walk to and fro.
double place_of(double g, int64_t size, const GridSampleAttrs& attrs) {
  const auto n = static_cast<double>(size);
  double at = attrs.align_corners ? (g + 1) / 2 * (n - 1) : ((g + 1) * n - 1) / 2;
  const double low = attrs.align_corners ? 0 : -0.5, high = attrs.align_corners ? n - 1 : n - 0.5;
  if (attrs.padding == "reflection") {
    if (high <= low) at = 0;
    while (high > low && (at < low || at > high)) at = at < low ? 2 * low - at : 2 * high - at;
  }
  return attrs.padding == "zeros" ? at : std::clamp(at, 0.0, n - 1);
}

Tensor naive_sample(const Tensor& x, const Tensor& grid, const GridSampleAttrs& attrs) {
  const int64_t n = x.shape(0), c = x.shape(1), h = x.shape(2), w = x.shape(3);
  const int64_t places = grid.shape(1) * grid.shape(2);
  const Tensor y = Tensor::zeros({n, c, grid.shape(1), grid.shape(2)}, DType::float64);
  for (int64_t i = 0; i < n * c * places; ++i) {
    const double* g = grid.data<double>() + 2 * (i / (c * places) * places + i % places);
    const double* plane = x.data<double>() + i / places * h * w;
    double across = place_of(g[0], w, attrs), down = place_of(g[1], h, attrs);
    if (attrs.mode == "nearest") {
      across = std::nearbyint(across);
      down = std::nearbyint(down);
    }
    for (int64_t row = 0; row < h; ++row)
      for (int64_t column = 0; column < w; ++column)
        y.data<double>()[i] += std::max(0.0, 1 - std::abs(across - static_cast<double>(column))) *
                               std::max(0.0, 1 - std::abs(down - static_cast<double>(row))) *
                               plane[row * w + column];
  }
  return y;
}

// By differences of a function that is linear in x and, between elements, in each coordinate.
Tensor naive_gradient(const Tensor& grad, std::vector<Tensor> at, std::size_t wrt,
                      const GridSampleAttrs& attrs) {
  const auto total = [&] {
    const Tensor y = naive_sample(at[0], at[1], attrs);
    double sum = 0;
    for (int64_t i = 0; i < y.numel(); ++i) sum += y.data<double>()[i] * grad.data<double>()[i];
    return sum;
  };
  const Tensor moved = Tensor::empty(at[wrt].shape(), DType::float64);
  moved.assign(at[wrt]);
  at[wrt] = moved;
  const Tensor result = Tensor::zeros(moved.shape(), DType::float64);
  const double step = 1e-4;
  for (int64_t i = 0; i < moved.numel(); ++i) {
    double& element = moved.data<double>()[i];
    const double kept = element;
    element = kept + step;
    const double up = total();
    element = kept - step;
    result.data<double>()[i] = (up - total()) / (2 * step);
    element = kept;
  }
  return result;
}

// Places that stay a good way off elements, halves and borders, where slopes change.
Tensor places(const Shape& shape, int64_t height, int64_t width, const GridSampleAttrs& attrs) {
  const Tensor grid = random_tensor(shape, 5, -2.2, 2.2);
  for (int64_t i = 0; i < grid.numel(); ++i) {
    const auto n = static_cast<double>(i % 2 == 0 ? width : height);
    double& g = grid.data<double>()[i];
    const double scale = attrs.align_corners ? (n - 1) / 2 : n / 2;
    if (scale == 0) continue;
    const double at = attrs.align_corners ? (g + 1) * scale : (g + 1) * scale - 0.5;
    const double quarter = std::floor(at * 2) / 2 + 0.25;
    g = (attrs.align_corners ? quarter : quarter + 0.5) / scale - 1;
  }
  return grid;
}

void add_samples(std::vector<OpCase>& rows, const std::string& label, const Shape& x,
                 const Shape& grid) {
  for (const char* mode : {"bilinear", "nearest"})
    for (const char* padding : {"zeros", "border", "reflection"})
      for (const bool align : {false, true}) {
        const GridSampleAttrs attrs{mode, padding, align};
        OpCase forward{.op = "grid_sample",
                       .label = label + ", " + mode + ", " + padding + (align ? ", aligned" : ""),
                       .inputs = {random_tensor(x, 3), places(grid, x[2], x[3], attrs)}};
        forward.attrs = Attrs::of(attrs);
        // The halves would move the places.
        forward.dtypes = {DType::float32, DType::float64};
        forward.reference = [attrs](const std::vector<Tensor>& in) {
          return std::vector{naive_sample(in[0], in[1], attrs)};
        };
        OpCase backward = forward;
        backward.op = "grid_sample_backward";
        backward.inputs.insert(backward.inputs.begin(),
                               random_tensor({x[0], x[1], grid[1], grid[2]}, 4));
        // Differences, in float64 too.
        backward.tolerance = 1e-4;
        backward.reference = [attrs](const std::vector<Tensor>& in) {
          return std::vector{naive_gradient(in[0], {in[1], in[2]}, 0, attrs),
                             naive_gradient(in[0], {in[1], in[2]}, 1, attrs)};
        };
        rows.insert(rows.end(), {forward, backward});
      }
}

}  // namespace

std::vector<OpCase> resample_cases() {
  std::vector<OpCase> rows;
  for (const Setting& s :
       std::vector<Setting>{{"twice as large", {2, 3, 4, 5}, {2, 3, 8, 10}},
                            {"uneven", {1, 2, 5, 7}, {1, 2, 8, 3}},
                            {"smaller", {1, 2, 9, 8}, {1, 2, 3, 2}},
                            {"past a vector", {1, 2, 3, 19}, {1, 2, 5, 37}},
                            {"one axis alone", {1, 2, 4, 5}, {1, 2, 4, 9}},
                            {"1-d", {2, 3, 5}, {2, 3, 12}},
                            {"3-d", {1, 2, 2, 3, 4}, {1, 2, 3, 5, 7}},
                            {"of one element", {1, 2, 1, 1}, {1, 2, 3, 4}},
                            {"to one element", {1, 2, 4, 3}, {1, 2, 1, 1}},
                            {"the same size", {1, 2, 3, 4}, {1, 2, 3, 4}},
                            {"batch 0", {0, 2, 3, 4}, {0, 2, 5, 6}},
                            {"by a scale", {1, 2, 5, 7}, {1, 2, 6, 9}, 1.37},
                            {"by a small one", {1, 1, 7, 5}, {1, 1, 5, 3}, 0.73},
                            {"by one that changes no size", {2, 1, 3}, {2, 1, 3}, 1.3},
                            {"by a round one", {1, 1, 4, 2}, {1, 1, 10, 5}, 2.5}})
    add_interpolations(rows, s);
  add_samples(rows, "small", {2, 3, 4, 5}, {2, 3, 2, 2});
  add_samples(rows, "past a vector", {1, 2, 3, 6}, {1, 1, 21, 2});
  add_samples(rows, "one row", {1, 2, 1, 4}, {1, 2, 3, 2});
  add_samples(rows, "no places", {1, 2, 3, 4}, {1, 0, 3, 2});
  return rows;
}

}  // namespace lockstep::testing
