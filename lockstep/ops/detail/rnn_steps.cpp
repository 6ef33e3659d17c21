// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/detail/rnn_steps.h"

#include "lockstep/ops/cpu/rnn.h"
#include "lockstep/ops/create.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/matmul.h"
#include "lockstep/ops/reduce.h"
#include "lockstep/ops/rnn_attrs.h"
#include "lockstep/ops/shape_ops.h"
#include "lockstep/ops/unary.h"

namespace lockstep::detail {
namespace {

using Tensors = std::vector<Tensor>;

// One step's values, each [N, H]. `kept` is what the workspace keeps of them.
struct Step {
  Tensor h_prev, c_prev, h;
  Tensors kept;
};

struct Layer {
  RnnSizes n;
  RnnInputs at;
  std::span<const Tensor> in;

  Layer(std::span<const Tensor> inputs, const RnnAttrs& attrs)
      : n(rnn_sizes(attrs, inputs[0].shape(), inputs[attrs.mode == "lstm" ? 4 : 3].shape())),
        at(n),
        in(inputs) {}

  Tensor gate(const Tensor& gates, std::int64_t g) const {
    return slice_axis(gates, 1, g * n.hidden, (g + 1) * n.hidden);
  }
  Tensor at_time(const Tensor& x, std::int64_t t) const {
    return reshape(slice_axis(x, 0, t, t + 1), {x.shape(1), x.shape(2)});
  }
  // `x` [N, ...] where step s is one of the sequence's, `other` beyond its end.
  Tensor while_valid(std::int64_t s, const Tensor& x, const Tensor& other) const {
    if (!n.has_lengths) return x;
    const Tensor valid = greater(in[at.lengths()], static_cast<double>(n.time(s)));
    return where(expand_dims(valid, 1), x, other);
  }
  // `x` [T, N, ...], 0 beyond a sequence's end: a NaN there would outlast being multiplied by 0.
  Tensor until_end(const Tensor& x) const { return n.has_lengths ? until(in[at.lengths()], x) : x; }
  Tensor while_valid(std::int64_t s, const Tensor& x) const {
    return while_valid(s, x, Tensor::zeros({}, x.dtype(), x.device()));
  }
};

void lstm_step(const Layer& layer, Step& step, const Tensor& gates) {
  const Tensor i = sigmoid(layer.gate(gates, 0)), f = sigmoid(layer.gate(gates, 1));
  const Tensor g = tanh(layer.gate(gates, 2)), o = sigmoid(layer.gate(gates, 3));
  const Tensor c = f * step.c_prev + i * g;
  step.h = o * tanh(c);
  step.kept = {i, f, g, o, c};
}

void gru_step(const Layer& layer, Step& step, const Tensor& a, const Tensor& b) {
  const Tensor r = sigmoid(layer.gate(a, 0) + layer.gate(b, 0));
  const Tensor z = sigmoid(layer.gate(a, 1) + layer.gate(b, 1));
  const Tensor part = layer.gate(b, 2);
  const Tensor fresh = tanh(layer.gate(a, 2) + r * part);
  step.h = fresh + z * (step.h_prev - fresh);
  step.kept = {r, z, fresh, part};
}

// In the order in which steps are taken.
std::vector<Step> run_steps(const Layer& layer) {
  const auto in = [&](std::size_t i) { return layer.in[i]; };
  const RnnInputs& at = layer.at;
  const Tensor a =
      dense(layer.until_end(layer.in[at.x()]), in(at.w_input()), in(at.b_input()), false);
  std::vector<Step> steps;
  Tensor h = in(at.h0());
  Tensor c = layer.n.has_cell() ? in(at.c0()) : Tensor();
  for (std::int64_t s = 0; s < layer.n.steps; ++s) {
    const Tensor input_part = layer.at_time(a, layer.n.time(s));
    const Tensor hidden_part = dense(h, in(at.w_hidden()), in(at.b_hidden()), false);
    Step step{h, c, {}, {}};
    switch (layer.n.mode) {
      case RnnMode::lstm: lstm_step(layer, step, input_part + hidden_part); break;
      case RnnMode::gru: gru_step(layer, step, input_part, hidden_part); break;
      case RnnMode::tanh: step.h = tanh(input_part + hidden_part); break;
      case RnnMode::relu: step.h = relu(input_part + hidden_part); break;
    }
    step.h = layer.while_valid(s, step.h, h);
    for (std::size_t i = 0; i < step.kept.size(); ++i)
      step.kept[i] =
          i == 4 ? layer.while_valid(s, step.kept[i], c) : layer.while_valid(s, step.kept[i]);
    h = step.h;
    if (layer.n.has_cell()) c = step.kept[4];
    steps.push_back(std::move(step));
  }
  return steps;
}

// Gradients of the gates' two parts, [N, G H]; the same tensor except for gru.
struct GateGrads {
  Tensor input, hidden;
};

GateGrads lstm_backward(const Step& step, const Tensor& dh, Tensor& dc) {
  const Tensor &i = step.kept[0], &f = step.kept[1], &g = step.kept[2], &o = step.kept[3];
  const Tensor t = tanh(step.kept[4]);
  const Tensor total = dc + dh * o * (1.0 - square(t));
  dc = total * f;
  const Tensor gates = concat({total * g * i * (1.0 - i), total * step.c_prev * f * (1.0 - f),
                               total * i * (1.0 - square(g)), dh * t * o * (1.0 - o)},
                              1);
  return {gates, gates};
}

GateGrads gru_backward(const Step& step, const Tensor& dh) {
  const Tensor &r = step.kept[0], &z = step.kept[1], &fresh = step.kept[2];
  const Tensor dn = dh * (1.0 - z) * (1.0 - square(fresh));
  const Tensor dr = dn * step.kept[3] * r * (1.0 - r);
  const Tensor dz = dh * (step.h_prev - fresh) * z * (1.0 - z);
  return {concat({dr, dz, dn}, 1), concat({dr, dz, dn * r}, 1)};
}

GateGrads plain_backward(RnnMode mode, const Step& step, const Tensor& dh) {
  const Tensor slope =
      mode == RnnMode::tanh ? 1.0 - square(step.h) : cast(greater(step.h, 0.0), step.h.dtype());
  const Tensor gates = dh * slope;
  return {gates, gates};
}

GateGrads step_backward(const Layer& layer, const Step& step, const Tensor& dh, Tensor& dc) {
  if (layer.n.mode == RnnMode::lstm) return lstm_backward(step, dh, dc);
  if (layer.n.mode == RnnMode::gru) return gru_backward(step, dh);
  return plain_backward(layer.n.mode, step, dh);
}

// Parts are in the order of steps; the result is in the order of time.
Tensor stack_in_time(const Layer& layer, Tensors parts) {
  if (layer.n.reverse) parts = Tensors(parts.rbegin(), parts.rend());
  return stack(parts, 0);
}

Tensor flat(const Tensor& x) { return reshape(x, {x.shape(0) * x.shape(1), x.shape(2)}); }

Tensor zeros_as(const TensorInfo& info) {
  return Tensor::zeros(info.shape, info.dtype, info.device);
}

// No steps: the states pass through, and nothing else has a gradient.
Tensors backward_of_nothing(const Layer& layer, const Tensor& dh, const Tensor& dc) {
  Tensors result;
  for (std::size_t i = 0; i < layer.at.differentiable(); ++i)
    result.push_back(zeros_as(layer.in[i].info()));
  result[layer.at.h0()] = dh;
  if (layer.n.has_cell()) result[layer.at.c0()] = dc;
  return result;
}

}  // namespace

Tensor until(const Tensor& lengths, const Tensor& x) {
  const auto steps = static_cast<double>(x.shape(0));
  const Tensor time = reshape(arange(0.0, steps, 1.0, lengths.dtype(), x.device()), {-1, 1, 1});
  const Tensor valid = less(time, reshape(lengths, {1, -1, 1}));
  return where(valid, x, zeros({}, x.dtype(), x.device()));
}

std::vector<Tensor> rnn_layer_by_steps(std::span<const Tensor> inputs, const Attrs& attrs) {
  const Layer layer(inputs, attrs.as<RnnAttrs>());
  const std::vector<Step> steps = run_steps(layer);
  const Tensor& x = inputs[0];
  const bool wide = x.dtype() == DType::float64;
  const DType kept_dtype = wide ? DType::float64 : DType::float32;
  Tensor y = Tensor::zeros({layer.n.steps, layer.n.batch, layer.n.hidden}, x.dtype(), x.device());
  Tensor kept =
      Tensor::zeros({layer.n.steps, layer.n.batch, layer.n.kept_width()}, kept_dtype, x.device());
  Tensors hs, rows;
  for (const Step& step : steps) {
    hs.push_back(step.h);
    if (!step.kept.empty()) rows.push_back(concat(step.kept, 1));
  }
  if (!hs.empty()) y = stack_in_time(layer, hs);
  if (!rows.empty()) kept = cast(stack_in_time(layer, rows), kept_dtype);
  Tensors outputs{y, steps.empty() ? inputs[layer.at.h0()] : steps.back().h};
  if (layer.n.has_cell())
    outputs.push_back(steps.empty() ? inputs[layer.at.c0()] : steps.back().kept[4]);
  outputs.push_back(kept);
  return outputs;
}

std::vector<Tensor> rnn_layer_backward_by_steps(std::span<const Tensor> inputs,
                                                const Attrs& attrs) {
  const auto& options = attrs.as<RnnBackwardAttrs>();
  const RnnGradInputs grads(options);
  const Layer layer(inputs.subspan(grads.count()), options.forward());
  const RnnInputs& at = layer.at;
  Tensor dh = grads.has_dh ? inputs[grads.dh()] : zeros_as(layer.in[at.h0()].info());
  Tensor dc = grads.has_dc ? inputs[grads.dc()] : zeros_as(layer.in[at.h0()].info());
  if (layer.n.steps == 0) return backward_of_nothing(layer, dh, dc);
  const std::vector<Step> steps = run_steps(layer);
  Tensors input_parts, hidden_parts, states;
  for (std::int64_t s = layer.n.steps - 1; s >= 0; --s) {
    const Step& step = steps[static_cast<std::size_t>(s)];
    const Tensor total = grads.has_dy ? layer.at_time(inputs[0], layer.n.time(s)) + dh : dh;
    const Tensor dc_after = dc;
    GateGrads gates = step_backward(layer, step, total, dc);
    gates = {layer.while_valid(s, gates.input), layer.while_valid(s, gates.hidden)};
    dh = matmul(gates.hidden, layer.in[at.w_hidden()]);
    if (layer.n.mode == RnnMode::gru) dh = dh + total * step.kept[1];
    dh = layer.while_valid(s, dh, total);
    if (layer.n.has_cell()) dc = layer.while_valid(s, dc, dc_after);
    input_parts.insert(input_parts.begin(), gates.input);
    hidden_parts.insert(hidden_parts.begin(), gates.hidden);
    states.insert(states.begin(), layer.while_valid(s, step.h_prev));
  }
  const Tensor dinput = stack_in_time(layer, input_parts);
  const Tensor dhidden = stack_in_time(layer, hidden_parts);
  Tensors result(at.differentiable());
  result[at.x()] = layer.until_end(matmul(dinput, layer.in[at.w_input()]));
  result[at.h0()] = dh;
  if (layer.n.has_cell()) result[at.c0()] = dc;
  result[at.w_input()] = matmul(flat(dinput), flat(layer.until_end(layer.in[at.x()])), true);
  result[at.w_hidden()] = matmul(flat(dhidden), flat(stack_in_time(layer, states)), true);
  result[at.b_input()] = sum(dinput, {0, 1});
  result[at.b_hidden()] = sum(dhidden, {0, 1});
  return result;
}

}  // namespace lockstep::detail
