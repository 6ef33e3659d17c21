// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "lockstep/ops/conv_attrs.h"
#include "tests/ops/op_cases.h"

namespace lockstep::testing {
namespace {

using std::int64_t;

// Calls f(position, index) for every position of a box of sizes `s`.
template <class F>
void for_each_position(const ConvProblem::Sizes& s, const F& f) {
  int64_t index = 0;
  for (int64_t i = 0; i < s[0]; ++i)
    for (int64_t j = 0; j < s[1]; ++j)
      for (int64_t k = 0; k < s[2]; ++k) f(ConvProblem::Sizes{i, j, k}, index++);
}

// Calls f(x index, weight index, y index) for every product of one channel with one kernel.
template <class F>
void for_each_product_of_plane(const ConvProblem& p, const F& f) {
  for_each_position(p.kernel, [&](const ConvProblem::Sizes& ks, int64_t k) {
    for_each_position(p.output, [&](const ConvProblem::Sizes& is, int64_t i) {
      int64_t at = 0;
      for (std::size_t a = 0; a < 3; ++a) {
        const int64_t pos = is[a] * p.stride[a] - p.padding[a] + ks[a] * p.dilation[a];
        if (pos < 0 || pos >= p.input[a]) return;
        at = at * p.input[a] + pos;
      }
      f(at, k, i);
    });
  });
}

// Calls f(x index, weight index, y index) for every product of the convolution.
template <class F>
void for_each_product(const ConvProblem& p, const F& f) {
  const auto volume = [](const ConvProblem::Sizes& s) { return s[0] * s[1] * s[2]; };
  for (int64_t n = 0; n < p.batch; ++n)
    for (int64_t o = 0; o < p.out_channels; ++o)
      for (int64_t c = 0; c < p.group_in(); ++c) {
        const int64_t channel = o / p.group_out() * p.group_in() + c;
        const int64_t x = (n * p.in_channels + channel) * volume(p.input);
        const int64_t w = (o * p.group_in() + c) * volume(p.kernel);
        const int64_t y = (n * p.out_channels + o) * volume(p.output);
        for_each_product_of_plane(
            p, [&](int64_t at, int64_t k, int64_t i) { f(x + at, w + k, y + i); });
      }
}

Tensor spread_bias(const std::vector<Tensor>& in, const Shape& shape) {
  Tensor y = Tensor::zeros(shape, DType::float64);
  if (in.size() < 3 || y.numel() == 0) return y;
  const int64_t plane = y.numel() / (shape[0] * shape[1]);
  for (int64_t i = 0; i < y.numel(); ++i)
    y.data<double>()[i] = in[2].data<double>()[i / plane % shape[1]];
  return y;
}

Tensor naive_conv(const std::vector<Tensor>& in, const ConvAttrs& attrs, const Shape& y_shape) {
  const Tensor y = spread_bias(in, y_shape);
  const double *x = in[0].data<double>(), *w = in[1].data<double>();
  for_each_product(
      {in[0].shape(), in[1].shape(), y_shape, attrs},
      [&](int64_t xi, int64_t wi, int64_t yi) { y.data<double>()[yi] += x[xi] * w[wi]; });
  if (attrs.activation == "relu")
    for (int64_t i = 0; i < y.numel(); ++i)
      y.data<double>()[i] = std::max(0.0, y.data<double>()[i]);
  return y;
}

Tensor naive_data(const std::vector<Tensor>& in, const ConvWindow& window, const Shape& x_shape) {
  const Tensor x = spread_bias(in, x_shape);
  const double *y = in[0].data<double>(), *w = in[1].data<double>();
  for_each_product(
      {x_shape, in[1].shape(), in[0].shape(), window},
      [&](int64_t xi, int64_t wi, int64_t yi) { x.data<double>()[xi] += y[yi] * w[wi]; });
  return x;
}

std::vector<Tensor> naive_weights(const std::vector<Tensor>& in, const ConvWindow& window,
                                  const Shape& w_shape) {
  const Tensor w = Tensor::zeros(w_shape, DType::float64);
  const Tensor b = Tensor::zeros({w_shape[0]}, DType::float64);
  const double *x = in[0].data<double>(), *y = in[1].data<double>();
  for_each_product(
      {in[0].shape(), w_shape, in[1].shape(), window},
      [&](int64_t xi, int64_t wi, int64_t yi) { w.data<double>()[wi] += x[xi] * y[yi]; });
  if (in[1].numel() == 0) return {w, b};
  const int64_t plane = in[1].numel() / (in[1].shape(0) * in[1].shape(1));
  for (int64_t i = 0; i < in[1].numel(); ++i) b.data<double>()[i / plane % w_shape[0]] += y[i];
  return {w, b};
}

// One convolution, from which rows for all of its ops are made.
struct Setting {
  std::string label;
  Shape x, w, y;
  ConvWindow window = {};
};

OpCase forward_case(const Setting& s, bool bias, const std::string& activation) {
  const ConvAttrs attrs{s.window, activation};
  OpCase row{
      .op = "conv", .label = s.label, .inputs = {random_tensor(s.x, 1), random_tensor(s.w, 2)}};
  if (bias) row.inputs.push_back(random_tensor({s.w[0]}, 3));
  row.label += bias ? ", bias" : "";
  row.label += activation.empty() ? "" : ", " + activation;
  row.attrs = Attrs::of(attrs);
  row.check_gradient = activation.empty();
  row.reference = [attrs, y = s.y](const std::vector<Tensor>& in) {
    return std::vector{naive_conv(in, attrs, y)};
  };
  return row;
}

OpCase data_case(const Setting& s, const std::string& op, bool bias, ConvDataAttrs attrs) {
  OpCase row{.op = op, .label = s.label, .inputs = {random_tensor(s.y, 4), random_tensor(s.w, 5)}};
  if (bias) row.inputs.push_back(random_tensor({s.x[1]}, 6));
  row.label += bias ? ", bias" : "";
  row.attrs = Attrs::of(attrs);
  row.reference = [attrs, x = s.x](const std::vector<Tensor>& in) {
    return std::vector{naive_data(in, attrs, x)};
  };
  return row;
}

OpCase weights_case(const Setting& s, bool bias) {
  const auto kernel = s.w.span().subspan(2);
  const ConvWeightsAttrs attrs{s.window, Ints(kernel.begin(), kernel.end()), bias};
  OpCase row{.op = "conv_backward_weights",
             .label = s.label + (bias ? ", bias" : ""),
             .inputs = {random_tensor(s.x, 7), random_tensor(s.y, 8)}};
  row.attrs = Attrs::of(attrs);
  row.reference = [attrs, w = s.w](const std::vector<Tensor>& in) {
    std::vector<Tensor> out = naive_weights(in, attrs, w);
    if (!attrs.with_bias) out.pop_back();
    return out;
  };
  return row;
}

std::vector<Setting> settings() {
  return {
      {"1x1 kernel", {2, 3, 4, 5}, {4, 3, 1, 1}, {2, 4, 4, 5}, {}},
      {"3x3, padding 1", {2, 3, 5, 6}, {4, 3, 3, 3}, {2, 4, 5, 6}, {.padding = {1}}},
      {"stride 2, rows left over", {1, 2, 6, 7}, {3, 2, 3, 3}, {1, 3, 2, 3}, {.stride = {2}}},
      {"stride, padding and dilation differ by axis",
       {2, 2, 7, 6},
       {2, 2, 2, 3},
       {2, 2, 3, 6},
       {.stride = {2, 1}, .padding = {0, 2}, .dilation = {2, 2}}},
      {"groups", {2, 4, 4, 4}, {6, 2, 3, 3}, {2, 6, 4, 4}, {.padding = {1}, .groups = 2}},
      {"depthwise",
       {1, 5, 5, 5},
       {5, 1, 3, 3},
       {1, 5, 3, 3},
       {.stride = {2}, .padding = {1}, .groups = 5}},
      {"1-d", {2, 3, 9}, {4, 3, 3}, {2, 4, 7}, {}},
      {"1-d, dilation", {1, 2, 10}, {2, 2, 3}, {1, 2, 6}, {.dilation = {2}}},
      {"3-d", {1, 2, 3, 4, 5}, {3, 2, 2, 2, 2}, {1, 3, 2, 3, 4}, {}},
      {"3-d, groups",
       {1, 4, 3, 3, 3},
       {4, 2, 3, 3, 3},
       {1, 4, 2, 2, 2},
       {.stride = {2}, .padding = {1}, .groups = 2}},
      {"batch 0", {0, 3, 4, 4}, {2, 3, 3, 3}, {0, 2, 2, 2}, {}},
      {"every size 1", {1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}, {}},
      {"padding past the kernel", {1, 1, 2, 2}, {1, 1, 1, 1}, {1, 1, 6, 6}, {.padding = {2}}},
  };
}

// Wide enough for blocked layouts and Winograd; finite differences would take too long.
std::vector<Setting> wide_settings() {
  return {
      {"channels past a SIMD width",
       {2, 19, 6, 6},
       {35, 19, 3, 3},
       {2, 35, 6, 6},
       {.padding = {1}}},
      {"32 channels", {2, 32, 14, 14}, {64, 32, 3, 3}, {2, 64, 14, 14}, {.padding = {1}}},
      {"wide depthwise",
       {2, 32, 9, 9},
       {32, 1, 3, 3},
       {2, 32, 9, 9},
       {.padding = {1}, .groups = 32}},
      {"wide groups",
       {2, 32, 7, 7},
       {48, 16, 3, 3},
       {2, 48, 4, 4},
       {.stride = {2}, .padding = {1}, .groups = 2}},
  };
}

void add_rows(std::vector<OpCase>& rows, const Setting& s) {
  const auto size = s.x.span().subspan(2);
  const ConvDataAttrs data{s.window, Ints(size.begin(), size.end()), {}};
  rows.push_back(forward_case(s, false, ""));
  rows.push_back(forward_case(s, true, ""));
  rows.push_back(forward_case(s, true, "relu"));
  rows.push_back(data_case(s, "conv_backward_data", false, data));
  rows.push_back(data_case(s, "conv_backward_data", true, data));
  rows.push_back(weights_case(s, false));
  rows.push_back(weights_case(s, true));
}

void add_transposed_rows(std::vector<OpCase>& rows) {
  const ConvWindow twice{.stride = {2}, .padding = {1}};
  rows.push_back(data_case({"doubling", {2, 3, 8, 10}, {4, 3, 4, 4}, {2, 4, 4, 5}, twice},
                           "conv_transpose", true, {twice, {}, {}}));
  rows.push_back(data_case({"output padding", {1, 2, 8}, {3, 2, 3}, {1, 3, 4}, twice},
                           "conv_transpose", false, {twice, {}, {1}}));
  rows.push_back(
      data_case({"plain", {1, 2, 6, 6}, {3, 2, 3, 3}, {1, 3, 4, 4}}, "conv_transpose", true, {}));
}

}  // namespace

std::vector<OpCase> conv_cases() {
  std::vector<OpCase> rows;
  for (const Setting& s : settings()) add_rows(rows, s);
  add_transposed_rows(rows);
  const std::size_t small = rows.size();
  for (const Setting& s : wide_settings()) add_rows(rows, s);
  for (std::size_t i = small; i < rows.size(); ++i) {
    rows[i].check_gradient = false;
    // Hundreds of products: the reference adds them one by one, Winograd in transformed sums.
    rows[i].tolerance = 1e-4;
  }
  return rows;
}

}  // namespace lockstep::testing
