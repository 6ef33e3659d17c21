// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "lockstep/ops/pool_attrs.h"
#include "lockstep/ops/spatial.h"
#include "tests/ops/op_cases.h"

namespace lockstep::testing {
namespace {

using std::int64_t;

// One pool, from which rows for all of its ops are made. `y` is written by hand.
struct Setting {
  std::string label;
  Shape x, y;
  PoolWindow window;
};

std::array<int64_t, 3> three(const Ints& list, int64_t none) {
  std::array<int64_t, 3> result{none, none, none};
  std::copy(list.begin(), list.end(), result.end() - static_cast<std::ptrdiff_t>(list.size()));
  return result;
}

// A pool in three spatial axes.
struct Sizes {
  explicit Sizes(const Setting& s) {
    const std::size_t n = static_cast<std::size_t>(s.x.rank()) - 2;
    in = three({s.x.begin() + 2, s.x.end()}, 1);
    out = three({s.y.begin() + 2, s.y.end()}, 1);
    const Ints kernels = spatial_list(s.window.kernel, n, 1);
    kernel = three(kernels, 1);
    stride = three(s.window.stride.empty() ? kernels : spatial_list(s.window.stride, n, 1), 1);
    pad = three(spatial_list(s.window.padding, n, 0), 0);
    dilation = three(spatial_list(s.window.dilation, n, 1), 1);
    planes = s.x[0] * s.x[1];
  }
  std::array<int64_t, 3> in, out, kernel, stride, pad, dilation;
  int64_t planes;
};

// Calls f(output index, kernel index, input index) for each element of each window, the input index
// -1 in the padding and -2 past it.
template <class F>
void for_each_element(const Sizes& s, const F& f) {
  const auto volume = [](const auto& v) { return v[0] * v[1] * v[2]; };
  for (int64_t i = 0; i < s.planes * volume(s.out); ++i)
    for (int64_t k = 0; k < volume(s.kernel); ++k) {
      const std::array o{i / (s.out[1] * s.out[2]) % s.out[0], i / s.out[2] % s.out[1],
                         i % s.out[2]};
      const std::array e{k / (s.kernel[1] * s.kernel[2]), k / s.kernel[2] % s.kernel[1],
                         k % s.kernel[2]};
      int64_t at = i / volume(s.out), outside = 0;
      for (std::size_t a = 0; a < 3; ++a) {
        const int64_t pos = o[a] * s.stride[a] - s.pad[a] + e[a] * s.dilation[a];
        if (pos < 0 || pos >= s.in[a]) outside = std::min<int64_t>(outside, -1);
        if (pos >= s.in[a] + s.pad[a]) outside = -2;
        at = at * s.in[a] + pos;
      }
      f(i, k, outside < 0 ? outside : at);
    }
}

int64_t volume_of(const Sizes& s) { return s.kernel[0] * s.kernel[1] * s.kernel[2]; }

struct MaxResult {
  Tensor y, workspace;
};
MaxResult naive_max(const Setting& setting, const Tensor& x) {
  const Sizes s(setting);
  const Tensor y =
      Tensor::full(setting.y, -std::numeric_limits<double>::infinity(), DType::float64);
  const Tensor best = Tensor::zeros(setting.y, DType::int32);
  for_each_element(s, [&](int64_t i, int64_t k, int64_t at) {
    if (at < 0 || !(x.data<double>()[at] > y.data<double>()[i])) return;
    y.data<double>()[i] = x.data<double>()[at];
    best.data<std::int32_t>()[i] = static_cast<std::int32_t>(k);
  });
  if (volume_of(s) > 255) return {y, best};
  const Tensor narrow = Tensor::zeros(setting.y, DType::uint8);
  narrow.assign(best);
  return {y, narrow};
}

// Calls f(output index, input index) for what the workspace chose.
template <class F>
void for_each_chosen(const Setting& setting, const Tensor& workspace, const F& f) {
  const auto chosen = workspace.to_vector<int64_t>();
  for_each_element(Sizes(setting), [&](int64_t i, int64_t k, int64_t at) {
    if (at >= 0 && chosen[static_cast<std::size_t>(i)] == k) f(i, at);
  });
}

std::vector<double> divisors(const Setting& setting, int64_t count) {
  std::vector<double> result(static_cast<std::size_t>(count), 0.0);
  for_each_element(Sizes(setting), [&](int64_t i, int64_t, int64_t at) {
    const bool counts = setting.window.count_include_pad ? at >= -1 : at >= 0;
    if (counts) result[static_cast<std::size_t>(i)] += 1.0;
  });
  return result;
}

// Sums from one side to the other, each window's elements weighted alike.
Tensor naive_average(const Setting& setting, const Tensor& from, bool backward) {
  const Tensor to = Tensor::zeros(backward ? setting.x : setting.y, DType::float64);
  const auto divisor = divisors(setting, setting.y.numel());
  for_each_element(Sizes(setting), [&](int64_t i, int64_t, int64_t at) {
    if (at < 0) return;
    const auto [source, target] = backward ? std::pair(i, at) : std::pair(at, i);
    to.data<double>()[target] += from.data<double>()[source] / divisor[static_cast<std::size_t>(i)];
  });
  return to;
}

Attrs backward_attrs(const Setting& s) {
  return Attrs::of(PoolBackwardAttrs{s.window, {s.x.begin() + 2, s.x.end()}});
}

// No two alike within 256 neighbours, and exact in every floating dtype, so that rounding does not
// change which is the largest.
Tensor distinct_tensor(const Shape& shape) {
  const Tensor x = Tensor::empty(shape, DType::float64);
  for (int64_t i = 0; i < x.numel(); ++i)
    x.data<double>()[i] = static_cast<double>((i * 167 + 13) % 256 - 128) / 64.0;
  return x;
}

void add_max_rows(std::vector<OpCase>& rows, const Setting& s) {
  const Tensor x = distinct_tensor(s.x);
  const Tensor workspace = naive_max(s, x).workspace;
  OpCase forward{.op = "max_pool", .label = s.label, .inputs = {x}};
  forward.attrs = Attrs::of(PoolAttrs{s.window});
  forward.reference = [s](const std::vector<Tensor>& in) {
    const MaxResult result = naive_max(s, in[0]);
    return std::vector{result.y, result.workspace};
  };
  OpCase backward{
      .op = "max_pool_backward", .label = s.label, .inputs = {random_tensor(s.y, 12), workspace}};
  backward.attrs = backward_attrs(s);
  backward.reference = [s](const std::vector<Tensor>& in) {
    const Tensor dx = Tensor::zeros(s.x, DType::float64);
    for_each_chosen(
        s, in[1], [&](int64_t i, int64_t at) { dx.data<double>()[at] += in[0].data<double>()[i]; });
    return std::vector{dx};
  };
  OpCase gather{.op = "max_pool_gather", .label = s.label, .inputs = {x, workspace}};
  gather.attrs = Attrs::of(PoolAttrs{s.window});
  gather.reference = [s](const std::vector<Tensor>& in) {
    const Tensor y = Tensor::zeros(s.y, DType::float64);
    for_each_chosen(s, in[1],
                    [&](int64_t i, int64_t at) { y.data<double>()[i] = in[0].data<double>()[at]; });
    return std::vector{y};
  };
  rows.insert(rows.end(), {forward, backward, gather});
}

void add_average_rows(std::vector<OpCase>& rows, Setting s) {
  for (const bool include : {true, false}) {
    s.window.count_include_pad = include;
    const std::string label = s.label + (include ? "" : ", padding not counted");
    OpCase forward{.op = "avg_pool", .label = label, .inputs = {random_tensor(s.x, 13)}};
    forward.attrs = Attrs::of(PoolAttrs{s.window});
    forward.reference = [s](const std::vector<Tensor>& in) {
      return std::vector{naive_average(s, in[0], false)};
    };
    OpCase backward{.op = "avg_pool_backward", .label = label, .inputs = {random_tensor(s.y, 14)}};
    backward.attrs = backward_attrs(s);
    backward.reference = [s](const std::vector<Tensor>& in) {
      return std::vector{naive_average(s, in[0], true)};
    };
    rows.insert(rows.end(), {forward, backward});
  }
}

// Output i of n covers [floor(i * size / n), ceil((i + 1) * size / n)): each axis in turn, as a
// matrix of shares.
double share(int64_t o, int64_t i, int64_t outputs, int64_t size) {
  const int64_t first = o * size / outputs;
  const int64_t last = ((o + 1) * size + outputs - 1) / outputs;
  return i >= first && i < last ? 1.0 / static_cast<double>(last - first) : 0.0;
}

Tensor naive_adaptive(const Shape& x, const Shape& y, const Tensor& from, bool backward) {
  const Tensor to = Tensor::zeros(backward ? x : y, DType::float64);
  const auto in = three({x.begin() + 2, x.end()}, 1), out = three({y.begin() + 2, y.end()}, 1);
  const int64_t in_plane = in[0] * in[1] * in[2], out_plane = out[0] * out[1] * out[2];
  for (int64_t o = 0; o < y.numel(); ++o)
    for (int64_t i = 0; i < in_plane; ++i) {
      const double weight =
          share(o / (out[1] * out[2]) % out[0], i / (in[1] * in[2]), out[0], in[0]) *
          share(o / out[2] % out[1], i / in[2] % in[1], out[1], in[1]) *
          share(o % out[2], i % in[2], out[2], in[2]);
      const int64_t at = o / out_plane * in_plane + i;
      const auto [source, target] = backward ? std::pair(o, at) : std::pair(at, o);
      to.data<double>()[target] += weight * from.data<double>()[source];
    }
  return to;
}

void add_adaptive_rows(std::vector<OpCase>& rows, const std::string& label, const Shape& x,
                       const Shape& y) {
  OpCase forward{.op = "adaptive_avg_pool", .label = label, .inputs = {random_tensor(x, 15)}};
  forward.attrs = Attrs::of(AdaptivePoolAttrs{{y.begin() + 2, y.end()}});
  forward.reference = [x, y](const std::vector<Tensor>& in) {
    return std::vector{naive_adaptive(x, y, in[0], false)};
  };
  OpCase backward{
      .op = "adaptive_avg_pool_backward", .label = label, .inputs = {random_tensor(y, 16)}};
  backward.attrs = Attrs::of(AdaptivePoolBackwardAttrs{{x.begin() + 2, x.end()}});
  backward.reference = [x, y](const std::vector<Tensor>& in) {
    return std::vector{naive_adaptive(x, y, in[0], true)};
  };
  rows.insert(rows.end(), {forward, backward});
}

std::vector<Setting> settings() {
  return {
      {"2x2", {2, 3, 4, 6}, {2, 3, 2, 3}, {.kernel = {2}}},
      {"rows left over", {1, 2, 5, 7}, {1, 2, 2, 3}, {.kernel = {2}}},
      {"overlapping, padding",
       {2, 2, 5, 5},
       {2, 2, 3, 3},
       {.kernel = {3}, .stride = {2}, .padding = {1}}},
      {"axes differ",
       {1, 2, 6, 5},
       {1, 2, 3, 5},
       {.kernel = {2, 3}, .stride = {2, 1}, .padding = {0, 1}}},
      {"rounded up", {1, 2, 5, 6}, {1, 2, 3, 3}, {.kernel = {2}, .ceil_mode = true}},
      {"rounded up past the padding",
       {1, 1, 6, 6},
       {1, 1, 4, 4},
       {.kernel = {3}, .stride = {2}, .padding = {1}, .ceil_mode = true}},
      {"a window that would begin outside",
       {1, 1, 3},
       {1, 1, 2},
       {.kernel = {2}, .stride = {2}, .padding = {1}, .ceil_mode = true}},
      {"1-d", {2, 3, 9}, {2, 3, 4}, {.kernel = {3}, .stride = {2}}},
      {"3-d", {1, 2, 4, 4, 5}, {1, 2, 2, 2, 2}, {.kernel = {2}}},
      {"gaps between windows", {1, 2, 7, 7}, {1, 2, 3, 3}, {.kernel = {1}, .stride = {3}}},
      {"the whole window", {2, 3, 4, 5}, {2, 3, 1, 1}, {.kernel = {4, 5}}},
      {"batch 0", {0, 3, 4, 4}, {0, 3, 2, 2}, {.kernel = {2}}},
      {"every size 1", {1, 1, 1, 1}, {1, 1, 1, 1}, {.kernel = {1}}},
      {"channels past a SIMD width", {2, 19, 4, 4}, {2, 19, 2, 2}, {.kernel = {2}}},
  };
}

std::vector<Setting> dilated_settings() {
  return {
      {"dilated", {2, 3, 7, 7}, {2, 3, 3, 3}, {.kernel = {3}, .stride = {1}, .dilation = {2}}},
      {"dilated, padding",
       {1, 2, 6, 8},
       {1, 2, 4, 4},
       {.kernel = {3, 2}, .stride = {1, 2}, .padding = {1, 1}, .dilation = {2, 3}}},
      {"dilated, rounded up",
       {1, 2, 8, 8},
       {1, 2, 3, 3},
       {.kernel = {2}, .stride = {3}, .ceil_mode = true, .dilation = {2}}},
      {"dilated, side by side",
       {1, 2, 9},
       {1, 2, 3},
       {.kernel = {2}, .stride = {3}, .dilation = {2}}},
      {"dilated 3-d",
       {1, 2, 4, 5, 5},
       {1, 2, 2, 3, 1},
       {.kernel = {2, 2, 3}, .stride = {1}, .dilation = {2}}},
      {"dilated, channels past a SIMD width",
       {2, 19, 6, 6},
       {2, 19, 2, 2},
       {.kernel = {3}, .stride = {1}, .dilation = {2}}},
  };
}

// The first of the largest, and where it is in its plane.
void add_adaptive_max_row(std::vector<OpCase>& rows, const std::string& label, const Shape& x,
                          const Shape& y) {
  OpCase row{.op = "adaptive_max_pool", .label = label, .inputs = {distinct_tensor(x)}};
  row.attrs = Attrs::of(AdaptivePoolAttrs{{y.begin() + 2, y.end()}});
  row.reference = [x, y](const std::vector<Tensor>& inputs) {
    const Tensor most = Tensor::full(y, -std::numeric_limits<double>::infinity(), DType::float64);
    const Tensor where = Tensor::zeros(y, DType::int64);
    const auto in = three({x.begin() + 2, x.end()}, 1), out = three({y.begin() + 2, y.end()}, 1);
    const int64_t plane = in[0] * in[1] * in[2], out_plane = out[0] * out[1] * out[2];
    for (int64_t o = 0; o < y.numel(); ++o)
      for (int64_t i = 0; i < plane; ++i) {
        const bool covered =
            share(o / (out[1] * out[2]) % out[0], i / (in[1] * in[2]), out[0], in[0]) > 0 &&
            share(o / out[2] % out[1], i / in[2] % in[1], out[1], in[1]) > 0 &&
            share(o % out[2], i % in[2], out[2], in[2]) > 0;
        const double value = inputs[0].data<double>()[o / out_plane * plane + i];
        if (!covered || !(value > most.data<double>()[o])) continue;
        most.data<double>()[o] = value;
        where.data<int64_t>()[o] = i;
      }
    return std::vector{most, where};
  };
  rows.push_back(row);
}

}  // namespace

std::vector<OpCase> pool_cases() {
  std::vector<OpCase> rows;
  for (const Setting& s : settings()) {
    add_max_rows(rows, s);
    add_average_rows(rows, s);
  }
  for (const Setting& s : dilated_settings()) add_max_rows(rows, s);
  add_adaptive_max_row(rows, "uneven", {2, 3, 5, 7}, {2, 3, 3, 4});
  add_adaptive_max_row(rows, "1-d, larger than the input", {1, 2, 3}, {1, 2, 5});
  add_adaptive_max_row(rows, "3-d", {1, 2, 3, 4, 5}, {1, 2, 2, 2, 2});
  add_adaptive_max_row(rows, "batch 0", {0, 2, 5}, {0, 2, 3});
  const std::size_t small = rows.size();
  add_max_rows(
      rows,
      {"window of more than 255", {1, 2, 17, 17}, {1, 2, 2, 2}, {.kernel = {16}, .stride = {1}}});
  add_average_rows(
      rows,
      {"large", {2, 16, 20, 20}, {2, 16, 10, 10}, {.kernel = {3}, .stride = {2}, .padding = {1}}});
  for (std::size_t i = small; i < rows.size(); ++i) rows[i].check_gradient = false;
  add_adaptive_rows(rows, "uneven", {2, 3, 5, 7}, {2, 3, 3, 4});
  add_adaptive_rows(rows, "1-d, larger than the input", {1, 2, 3}, {1, 2, 5});
  add_adaptive_rows(rows, "3-d", {1, 2, 3, 4, 5}, {1, 2, 2, 2, 2});
  add_adaptive_rows(rows, "batch 0", {0, 2, 5}, {0, 2, 3});
  return rows;
}

}  // namespace lockstep::testing
