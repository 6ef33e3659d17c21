// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/rnn.h"

#include "lockstep/ops/cpu/rnn.h"
#include "lockstep/ops/detail/rnn_steps.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/families.h"
#include "lockstep/ops/messages.h"
#include "lockstep/ops/rnn_attrs.h"
#include "lockstep/ops/shape_ops.h"

namespace lockstep {

RnnMode rnn_mode(const char* op, const std::string& name) {
  if (name == "lstm") return RnnMode::lstm;
  if (name == "gru") return RnnMode::gru;
  if (name == "rnn_tanh") return RnnMode::tanh;
  if (name == "rnn_relu") return RnnMode::relu;
  throw InvalidArgument("{}: mode is '{}', expected lstm, gru, rnn_tanh or rnn_relu", op, name);
}

std::int64_t RnnSizes::gates() const {
  if (mode == RnnMode::lstm) return 4;
  return mode == RnnMode::gru ? 3 : 1;
}

std::int64_t RnnSizes::kept() const {
  if (mode == RnnMode::lstm) return 5;
  return mode == RnnMode::gru ? 4 : 0;
}

RnnSizes rnn_sizes(const RnnAttrs& attrs, const Shape& x, const Shape& w_hidden) {
  return {rnn_mode("rnn_layer", attrs.mode),
          attrs.reverse,
          attrs.with_lengths,
          x[0],
          x[1],
          x[2],
          w_hidden[1]};
}

namespace {

const OpDef& rnn_layer_backward_op();

// Gates stay float32 for the half types: they are read again by the backward pass only.
DType workspace_dtype(DType dtype) {
  return dtype == DType::float64 ? DType::float64 : DType::float32;
}

void check_is(const char* op, const char* name, const TensorInfo& got, const Shape& shape,
              DType dtype) {
  if (got.dtype != dtype)
    throw InvalidArgument("{}: {} is {}, expected {}", op, name, name_of(got.dtype),
                          name_of(dtype));
  if (!(got.shape == shape))
    throw InvalidArgument("{}: {} has shape {}, expected {}", op, name, got.shape.str(),
                          shape.str());
}

// Of x, h0[, c0], w_input, w_hidden, b_input, b_hidden[, lengths].
RnnSizes checked_sizes(const char* op, std::span<const TensorInfo> in, const RnnAttrs& attrs) {
  const RnnMode mode = rnn_mode(op, attrs.mode);
  const std::size_t cell = mode == RnnMode::lstm ? 1 : 0;
  const std::size_t expected = 6 + cell + (attrs.with_lengths ? 1 : 0);
  if (in.size() != expected)
    throw InvalidArgument("{}: {} takes {} inputs, got {}", op, attrs.mode, expected, in.size());
  const TensorInfo& x = in[0];
  if (!is_floating(x.dtype))
    throw InvalidArgument("{}: x is {}, expected a floating dtype", op, name_of(x.dtype));
  if (x.shape.rank() != 3)
    throw InvalidArgument("{}: x has shape {}, expected [T, N, I]", op, x.shape.str());
  const TensorInfo& w_hidden = in[3 + cell];
  if (w_hidden.shape.rank() != 2)
    throw InvalidArgument("{}: w_hidden has shape {}, expected [G H, H]", op, w_hidden.shape.str());
  return rnn_sizes(attrs, x.shape, w_hidden.shape);
}

RnnSizes check_layer(const char* op, std::span<const TensorInfo> in, const RnnAttrs& attrs) {
  const RnnSizes n = checked_sizes(op, in, attrs);
  const RnnInputs at(n);
  const DType dtype = in[0].dtype;
  const Shape state{n.batch, n.hidden};
  check_is(op, "w_hidden", in[at.w_hidden()], {n.gate_width(), n.hidden}, dtype);
  check_is(op, "w_input", in[at.w_input()], {n.gate_width(), n.inputs}, dtype);
  check_is(op, "h0", in[at.h0()], state, dtype);
  if (n.has_cell()) check_is(op, "c0", in[at.c0()], state, dtype);
  check_is(op, "b_input", in[at.b_input()], {n.gate_width()}, dtype);
  check_is(op, "b_hidden", in[at.b_hidden()], {n.gate_width()}, dtype);
  if (n.has_lengths) {
    const TensorInfo& lengths = in[at.lengths()];
    const bool wide = lengths.dtype == DType::int64;
    check_is(op, "lengths", lengths, {n.batch}, wide ? DType::int64 : DType::int32);
  }
  return n;
}

Infos infer_layer(const InferArgs& args) {
  const RnnSizes n = check_layer(args.op, args.inputs, args.attrs.as<RnnAttrs>());
  const TensorInfo& x = args.inputs[0];
  const TensorInfo state{{n.batch, n.hidden}, x.dtype, x.device};
  Infos outputs{{{n.steps, n.batch, n.hidden}, x.dtype, x.device}, state};
  if (n.has_cell()) outputs.push_back(state);
  outputs.push_back({{n.steps, n.batch, n.kept_width()}, workspace_dtype(x.dtype), x.device});
  return outputs;
}

Infos infer_layer_backward(const InferArgs& args) {
  const auto& attrs = args.attrs.as<RnnBackwardAttrs>();
  const RnnGradInputs grads(attrs);
  const std::size_t cell = rnn_mode(args.op, attrs.mode) == RnnMode::lstm ? 1 : 0;
  const std::size_t lengths = attrs.with_lengths ? 1 : 0;
  const std::size_t expected = grads.count() + 8 + cell + lengths;
  if (args.inputs.size() != expected)
    throw InvalidArgument("{}: {} takes {} inputs, got {}", args.op, attrs.mode, expected,
                          args.inputs.size());
  const auto forward = args.inputs.subspan(grads.count(), 6 + cell + lengths);
  const Infos outputs = infer_layer({args.op, forward, Attrs::of(attrs.forward())});
  const auto check_like = [&](const char* name, std::size_t input, std::size_t output) {
    check_is(args.op, name, args.inputs[input], outputs[output].shape, outputs[output].dtype);
  };
  if (grads.has_dy) check_like("dy", grads.dy(), 0);
  if (grads.has_dh) check_like("dh_n", grads.dh(), 1);
  if (grads.has_dc) check_like("dc_n", grads.dc(), 2);
  check_like("y", expected - 2, 0);
  check_like("workspace", expected - 1, outputs.size() - 1);
  return Infos(forward.begin(), forward.end() - static_cast<std::ptrdiff_t>(lengths));
}

// The workspace has no gradient of its own: the backward op's composition computes the gates anew.
std::vector<Tensor> layer_gradient(const GradientArgs& args) {
  const auto& forward = args.attrs.as<RnnAttrs>();
  const std::size_t states = args.outputs.size() - 1;
  const auto given = [&](std::size_t i) { return i < states && args.output_grads[i].defined(); };
  const RnnBackwardAttrs attrs{forward.mode, forward.reverse, given(0),
                               given(1),     given(2),        forward.with_lengths};
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < states; ++i)
    if (given(i)) inputs.push_back(args.output_grads[i]);
  inputs.insert(inputs.end(), args.inputs.begin(), args.inputs.end());
  inputs.push_back(args.outputs.front());
  inputs.push_back(args.outputs.back());
  std::vector<Tensor> result = apply(rnn_layer_backward_op(), inputs, Attrs::of(attrs));
  result.resize(args.inputs.size());
  return result;
}

constexpr ArgumentDoc kLayer[] = {
    {"x", "floating, [T, N, I]"},
    {"h0", "[N, H]: the state to begin with"},
    {"c0", "[N, H]: the cell to begin with; lstm", Presence::optional},
    {"w_input", "[G H, I], gates one after another: lstm i, f, g, o; gru r, z, n"},
    {"w_hidden", "[G H, H]"},
    {"b_input", "[G H]"},
    {"b_hidden", "[G H]"},
    {"lengths",
     "[N], int32 or int64, 0 to T: beyond them states stay as they are and x is not looked at; "
     "with_lengths",
     Presence::optional}};
constexpr ArgumentDoc kLayerOutputs[] = {
    {"y", "[T, N, H]: the state after each step"},
    {"h_n", "[N, H]: the state after the last"},
    {"c_n", "[N, H]: the cell after the last; lstm", Presence::optional},
    {"workspace", "gates, for the backward pass"}};
constexpr ArgumentDoc kLayerGrad[] = {
    {"grad", "y's gradient; with dy", Presence::optional},
    {"grad_h_n", "h_n's gradient; with dh_n", Presence::optional},
    {"grad_c_n", "c_n's gradient; lstm, with dc_n", Presence::optional},
    {"x", "floating, [T, N, I]"},
    {"h0", "[N, H]: the state to begin with"},
    {"c0", "[N, H]: the cell to begin with; lstm", Presence::optional},
    {"w_input", "[G H, I], gates one after another: lstm i, f, g, o; gru r, z, n"},
    {"w_hidden", "[G H, H]"},
    {"b_input", "[G H]"},
    {"b_hidden", "[G H]"},
    {"lengths", "as in rnn_layer; with_lengths", Presence::optional},
    {"y", "rnn_layer's first output"},
    {"workspace", "rnn_layer's last output"}};
constexpr ArgumentDoc kLayerGradOutputs[] = {{"grad_x", "of x's shape"},
                                             {"grad_h0", "[N, H]"},
                                             {"grad_c0", "[N, H]; lstm", Presence::optional},
                                             {"grad_w_input", "[G H, I]"},
                                             {"grad_w_hidden", "[G H, H]"},
                                             {"grad_b_input", "[G H]"},
                                             {"grad_b_hidden", "[G H]"}};
constexpr OpDocs kRnnLayerDocs{"One layer of a recurrent network in one direction, over all steps.",
                               kLayer, kLayerOutputs};
constexpr OpDocs kRnnLayerBackwardDocs{"rnn_layer's gradients.", kLayerGrad, kLayerGradOutputs};

const OpDef& rnn_layer_op() {
  static const OpDef op{.name = "rnn_layer",
                        .docs = kRnnLayerDocs,
                        .min_inputs = 6,
                        .max_inputs = 8,
                        .schema = attr_schema<RnnAttrs>(),
                        .infer = infer_layer,
                        .gradient = layer_gradient,
                        .decompose = detail::rnn_layer_by_steps,
                        .cpu = kernels::rnn_layer_kernels()};
  return op;
}

const OpDef& rnn_layer_backward_op() {
  static const OpDef op{.name = "rnn_layer_backward",
                        .docs = kRnnLayerBackwardDocs,
                        .min_inputs = 8,
                        .max_inputs = 13,
                        .schema = attr_schema<RnnBackwardAttrs>(),
                        .infer = infer_layer_backward,
                        .decompose = detail::rnn_layer_backward_by_steps,
                        .cpu = kernels::rnn_layer_backward_kernels()};
  return op;
}

void check_defined(const Tensor& x, const std::vector<RnnWeights>& weights,
                   const RnnOptions& options) {
  if (!x.defined()) throw InvalidArgument("rnn: x is undefined");
  const std::size_t directions = options.bidirectional ? 2 : 1;
  if (weights.empty() || weights.size() % directions != 0)
    throw InvalidArgument("rnn: got weights of {} layers and directions, expected a multiple of {}",
                          weights.size(), directions);
  for (std::size_t i = 0; i < weights.size(); ++i)
    if (!weights[i].w_input.defined() || !weights[i].w_hidden.defined())
      throw InvalidArgument("rnn: w_input or w_hidden number {} is undefined", i);
  if (x.rank() != 3)
    throw InvalidArgument("rnn: x has shape {}, expected [T, N, I]", x.shape().str());
  if (weights[0].w_hidden.rank() != 2)
    throw InvalidArgument("rnn: w_hidden has shape {}, expected [G H, H]",
                          weights[0].w_hidden.shape().str());
}

void check_state(const char* name, const Tensor& state, const Shape& expected) {
  if (state.defined() && !(state.shape() == expected))
    throw InvalidArgument("rnn: {} has shape {}, expected {}", name, state.shape().str(),
                          expected.str());
}

// The state that layer and direction `index` begins with; zeros where none is given.
Tensor initial(const Tensor& state, std::size_t index, const Shape& shape, const Tensor& x) {
  if (!state.defined()) return Tensor::zeros(shape, x.dtype(), x.device());
  const auto i = static_cast<std::int64_t>(index);
  return reshape(slice_axis(state, 0, i, i + 1), shape.vector());
}

void check_lengths(const Tensor& lengths, const Tensor& x) {
  if (!lengths.defined()) return;
  if (lengths.dtype() != DType::int32 && lengths.dtype() != DType::int64)
    throw InvalidArgument("rnn: lengths are {}, expected int32 or int64", name_of(lengths.dtype()));
  if (!(lengths.shape() == Shape{x.shape(1)}))
    throw InvalidArgument("rnn: lengths have shape {}, expected [{}]", lengths.shape().str(),
                          x.shape(1));
}

Tensor bias_or_zeros(const Tensor& bias, const Tensor& w_hidden) {
  if (bias.defined()) return bias;
  return Tensor::zeros({w_hidden.shape(0)}, w_hidden.dtype(), w_hidden.device());
}

RnnResult run_layers(const Tensor& x, const std::vector<RnnWeights>& weights,
                     const RnnOptions& options, const Tensor& hidden, const Tensor& cell,
                     const Tensor& lengths) {
  const bool has_cell = rnn_mode("rnn", options.mode) == RnnMode::lstm;
  const std::size_t directions = options.bidirectional ? 2 : 1;
  const Shape state{x.shape(1), weights[0].w_hidden.shape(1)};
  std::vector<Tensor> last_hidden, last_cell;
  Tensor layer_input = x;
  for (std::size_t layer = 0; layer < weights.size() / directions; ++layer) {
    std::vector<Tensor> parts;
    for (std::size_t direction = 0; direction < directions; ++direction) {
      const std::size_t index = layer * directions + direction;
      const RnnWeights& w = weights[index];
      std::vector<Tensor> inputs{layer_input, initial(hidden, index, state, x)};
      if (has_cell) inputs.push_back(initial(cell, index, state, x));
      inputs.insert(inputs.end(), {w.w_input, w.w_hidden, bias_or_zeros(w.b_input, w.w_hidden),
                                   bias_or_zeros(w.b_hidden, w.w_hidden)});
      if (lengths.defined()) inputs.push_back(lengths);
      const RnnAttrs attrs{options.mode, direction == 1, lengths.defined()};
      const auto outputs =
          detail::named("rnn", [&] { return apply(rnn_layer_op(), inputs, Attrs::of(attrs)); });
      parts.push_back(outputs[0]);
      last_hidden.push_back(outputs[1]);
      if (has_cell) last_cell.push_back(outputs[2]);
    }
    layer_input = directions == 1 ? parts[0] : concat(parts, 2);
    if (lengths.defined()) layer_input = detail::until(lengths, layer_input);
  }
  const auto join = [](const std::vector<Tensor>& states) {
    return states.size() == 1 ? expand_dims(states[0], 0) : stack(states, 0);
  };
  return {layer_input, join(last_hidden), has_cell ? join(last_cell) : Tensor()};
}

}  // namespace

RnnResult rnn(const Tensor& x, const std::vector<RnnWeights>& weights, const RnnOptions& options,
              const Tensor& hidden, const Tensor& cell, const Tensor& lengths) {
  const bool has_cell = rnn_mode("rnn", options.mode) == RnnMode::lstm;
  check_defined(x, weights, options);
  const Shape all{static_cast<std::int64_t>(weights.size()), x.shape(1),
                  weights[0].w_hidden.shape(1)};
  check_state("hidden", hidden, all);
  check_state("cell", cell, all);
  check_lengths(lengths, x);
  if (cell.defined() && !has_cell) throw InvalidArgument("rnn: {} has no cell", options.mode);
  return run_layers(x, weights, options, hidden, cell, lengths);
}

namespace families {

Family rnn() { return {&rnn_layer_op(), &rnn_layer_backward_op()}; }

}  // namespace families
}  // namespace lockstep
