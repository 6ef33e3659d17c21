// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/families.h"
#include "lockstep/ops/rnn_attrs.h"
#include "tests/ops/op_cases.h"

namespace lockstep::testing {
namespace {

using Tensors = std::vector<Tensor>;

// A number and its derivative along one direction: the gradient's reference is the forward
// reference, run once for each input element, on these.
struct Dual {
  double value = 0.0;
  double slope = 0.0;
};
Dual operator+(Dual a, Dual b) { return {a.value + b.value, a.slope + b.slope}; }
Dual operator*(Dual a, Dual b) {
  return {a.value * b.value, a.value * b.slope + a.slope * b.value};
}
Dual flipped(Dual x) { return {1.0 - x.value, -x.slope}; }
Dual squash(Dual x) {
  const double t = std::tanh(x.value);
  return {t, x.slope * (1.0 - t * t)};
}
Dual logistic(Dual x) {
  const double s = 1.0 / (1.0 + std::exp(-x.value));
  return {s, x.slope * s * (1.0 - s)};
}
Dual rectified(Dual x) { return x.value > 0.0 ? x : Dual{}; }

double flipped(double x) { return 1.0 - x; }
double squash(double x) { return std::tanh(x); }
double logistic(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double rectified(double x) { return x > 0.0 ? x : 0.0; }

template <class S>
using Values = std::vector<std::vector<S>>;  // one list for each input or output

template <class S>
struct Gates {
  std::vector<S> input, hidden;
};

template <class S>
S state_of(const RnnSizes& n, const Gates<S>& gates, std::size_t j, S h, S& c) {
  const auto size = static_cast<std::size_t>(n.hidden);
  const auto& a = gates.input;
  const auto& b = gates.hidden;
  const auto both = [&](std::size_t g) { return a[g * size + j] + b[g * size + j]; };
  switch (n.mode) {
    case RnnMode::lstm:
      c = logistic(both(1)) * c + logistic(both(0)) * squash(both(2));
      return logistic(both(3)) * squash(c);
    case RnnMode::gru: {
      const S z = logistic(both(1));
      const S fresh = squash(a[2 * size + j] + logistic(both(0)) * b[2 * size + j]);
      return flipped(z) * fresh + z * h;
    }
    case RnnMode::tanh: return squash(both(0));
    case RnnMode::relu: return rectified(both(0));
  }
  return h;
}

template <class S>
std::vector<S> product(const std::vector<S>& weight, const std::vector<S>& bias, const S* x,
                       std::size_t columns) {
  std::vector<S> y = bias;
  for (std::size_t i = 0; i < y.size(); ++i)
    for (std::size_t j = 0; j < columns; ++j) y[i] = y[i] + weight[i * columns + j] * x[j];
  return y;
}

// y, h_n[, c_n] of x, h0[, c0], w_input, w_hidden, b_input, b_hidden. Sequences end at `lengths`,
// where there are some: states stay as they are.
template <class S>
Values<S> naive_layer(const RnnSizes& n, const Values<S>& in,
                      const std::vector<std::int64_t>& lengths) {
  const RnnInputs at(n);
  const auto size = static_cast<std::size_t>(n.hidden), inputs = static_cast<std::size_t>(n.inputs);
  std::vector<S> y(static_cast<std::size_t>(n.steps * n.batch) * size);
  std::vector<S> h = in[at.h0()];
  std::vector<S> c = n.has_cell() ? in[at.c0()] : h;
  for (std::int64_t s = 0; s < n.steps; ++s)
    for (std::int64_t i = 0; i < n.batch; ++i) {
      const std::int64_t t = n.reverse ? n.steps - 1 - s : s;
      const auto row = static_cast<std::size_t>(t * n.batch + i);
      S* state = h.data() + static_cast<std::size_t>(i) * size;
      if (n.has_lengths && t >= lengths[static_cast<std::size_t>(i)]) {
        std::copy_n(state, size, y.data() + row * size);
        continue;
      }
      const Gates<S> gates{
          product(in[at.w_input()], in[at.b_input()], in[0].data() + row * inputs, inputs),
          product(in[at.w_hidden()], in[at.b_hidden()], state, size)};
      for (std::size_t j = 0; j < size; ++j)
        y[row * size + j] = state[j] =
            state_of(n, gates, j, state[j], c[static_cast<std::size_t>(i) * size + j]);
    }
  if (n.has_cell()) return {y, h, c};
  return {y, h};
}

template <class S>
Values<S> values_of(std::span<const Tensor> tensors) {
  Values<S> result;
  for (const Tensor& t : tensors) {
    result.emplace_back();
    for (double v : t.to_vector<double>()) result.back().push_back(S{v});
  }
  return result;
}

RnnSizes sizes_of(std::span<const Tensor> in, const RnnAttrs& attrs) {
  return rnn_sizes(attrs, in[0].shape(), in[attrs.mode == "lstm" ? 4 : 3].shape());
}

std::vector<std::int64_t> lengths_of(std::span<const Tensor> in, const RnnAttrs& attrs) {
  return attrs.with_lengths ? in.back().to_vector<std::int64_t>() : std::vector<std::int64_t>();
}

// The workspace is the kernels' own affair.
Tensors forward_reference(const Tensors& in, const RnnAttrs& attrs) {
  const RnnSizes n = sizes_of(in, attrs);
  const auto outputs = naive_layer<double>(n, values_of<double>(in), lengths_of(in, attrs));
  Tensors result{Tensor::from(outputs[0], {n.steps, n.batch, n.hidden})};
  for (std::size_t i = 1; i < outputs.size(); ++i)
    result.push_back(Tensor::from(outputs[i], {n.batch, n.hidden}));
  result.push_back({});
  return result;
}

Tensors backward_reference(const Tensors& all, const RnnBackwardAttrs& attrs) {
  const RnnGradInputs grads(attrs);
  const std::size_t slopes = attrs.mode == "lstm" ? 7 : 6;
  const std::span in = std::span(all).subspan(grads.count(), slopes + (attrs.with_lengths ? 1 : 0));
  const RnnSizes n = sizes_of(in, attrs.forward());
  const std::vector<std::int64_t> lengths = lengths_of(in, attrs.forward());
  Values<Dual> values = values_of<Dual>(in);
  Values<double> weights(3);  // of y, h_n, c_n; none where no gradient is given
  if (grads.has_dy) weights[0] = all[grads.dy()].to_vector<double>();
  if (grads.has_dh) weights[1] = all[grads.dh()].to_vector<double>();
  if (grads.has_dc) weights[2] = all[grads.dc()].to_vector<double>();
  Tensors result;
  for (std::size_t k = 0; k < slopes; ++k) {
    std::vector<double> gradient;
    for (Dual& element : values[k]) {
      element.slope = 1.0;
      const Values<Dual> outputs = naive_layer(n, values, lengths);
      element.slope = 0.0;
      gradient.push_back(0.0);
      for (std::size_t o = 0; o < outputs.size(); ++o)
        for (std::size_t i = 0; i < weights[o].size(); ++i)
          gradient.back() += weights[o][i] * outputs[o][i].slope;
    }
    result.push_back(Tensor::from(gradient, in[k].shape()));
  }
  return result;
}

struct Sizes {
  std::int64_t steps, batch, inputs, hidden;
};

OpCase forward_case(std::string label, const Sizes& s, const RnnAttrs& attrs) {
  const std::int64_t gates = attrs.mode == "lstm" ? 4 : attrs.mode == "gru" ? 3 : 1;
  OpCase row;
  row.op = "rnn_layer";
  row.label = std::move(label);
  row.inputs = {random_tensor({s.steps, s.batch, s.inputs}, 1),
                random_tensor({s.batch, s.hidden}, 2)};
  if (attrs.mode == "lstm") row.inputs.push_back(random_tensor({s.batch, s.hidden}, 3));
  const Shape rest[] = {{gates * s.hidden, s.inputs},
                        {gates * s.hidden, s.hidden},
                        {gates * s.hidden},
                        {gates * s.hidden}};
  for (const Shape& shape : rest) row.inputs.push_back(random_tensor(shape, 4 + row.inputs.size()));
  if (attrs.with_lengths) row.inputs.push_back(random_indices({s.batch}, 9, 0, s.steps + 1));
  row.attrs = Attrs::of(attrs);
  row.reference = [attrs](const Tensors& inputs) { return forward_reference(inputs, attrs); };
  return row;
}

// What the kernels keep of the forward pass, computed as their comment says.
Tensor workspace_of(const OpCase& forward, const RnnAttrs& attrs) {
  for (const OpDef* op : families::rnn())
    if (op->name == "rnn_layer") return apply(*op, forward.inputs, Attrs::of(attrs)).back();
  return {};
}

OpCase backward_case(const OpCase& forward, const RnnBackwardAttrs& attrs) {
  const Tensors outputs = forward_reference(forward.inputs, attrs.forward());
  const bool given[] = {attrs.dy, attrs.dh_n, attrs.dc_n};
  OpCase row = forward;
  row.op = "rnn_layer_backward";
  row.inputs.clear();
  for (std::size_t i = 0; i + 1 < outputs.size(); ++i)
    if (given[i]) row.inputs.push_back(random_tensor(outputs[i].shape(), 20 + i));
  row.inputs.insert(row.inputs.end(), forward.inputs.begin(), forward.inputs.end());
  row.inputs.push_back(outputs[0]);
  row.inputs.push_back(workspace_of(forward, attrs.forward()));
  row.attrs = Attrs::of(attrs);
  row.reference = [attrs](const Tensors& inputs) { return backward_reference(inputs, attrs); };
  // y and the workspace follow from the other inputs, so they cannot be moved alone (the forward
  // op's second gradient covers this one's first), and the halves would round them.
  row.check_gradient = false;
  row.dtypes = {DType::float32, DType::float64};
  row.tolerance = 1e-4;
  return row;
}

}  // namespace

std::vector<OpCase> rnn_cases() {
  const std::pair<std::string, Sizes> specs[] = {
      {"small", {3, 2, 3, 2}},       {"one of everything", {1, 1, 1, 1}},
      {"no steps", {0, 2, 3, 2}},    {"no samples", {2, 0, 3, 2}},
      {"no features", {2, 2, 0, 3}}, {"beyond a vector", {3, 2, 5, 19}},
  };
  std::vector<OpCase> cases;
  for (const char* mode : {"lstm", "gru", "rnn_tanh", "rnn_relu"})
    for (const auto& [label, sizes] : specs)
      for (bool reverse : {false, true}) {
        const RnnAttrs attrs{mode, reverse};
        cases.push_back(forward_case(label, sizes, attrs));
        cases.push_back(backward_case(cases.back(), {mode, reverse}));
      }
  const std::pair<std::string, Sizes> ragged[] = {{"lengths", {4, 5, 3, 2}},
                                                  {"lengths of no steps", {0, 2, 3, 2}},
                                                  {"lengths beyond a vector", {3, 4, 5, 19}}};
  for (const char* mode : {"lstm", "gru", "rnn_tanh", "rnn_relu"})
    for (const auto& [label, sizes] : ragged)
      for (bool reverse : {false, true}) {
        cases.push_back(forward_case(label, sizes, {mode, reverse, true}));
        cases.push_back(backward_case(cases.back(), {mode, reverse, true, true, true, true}));
      }
  for (const char* mode : {"lstm", "gru", "rnn_tanh"})
    for (bool of_y : {false, true}) {
      const OpCase forward = forward_case("some gradients given", {3, 2, 3, 2}, {mode, false});
      cases.push_back(backward_case(forward, {mode, false, of_y, !of_y, false}));
    }
  return cases;
}

}  // namespace lockstep::testing
