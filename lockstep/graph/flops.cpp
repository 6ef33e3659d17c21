// SPDX-License-Identifier: Apache-2.0
#include "lockstep/graph/flops.h"

#include <unordered_map>

#include "lockstep/ops/known_ops.h"

namespace lockstep {
namespace {

using Counter = double (*)(const Graph& graph, const Node& node);

double numel(const Graph& graph, ValueId value) {
  return static_cast<double>(graph.info(value).shape.numel());
}

double size(const Graph& graph, ValueId value, int axis) {
  return static_cast<double>(graph.info(value).shape[axis]);
}

// A weight [O, C / groups, kernel...] is used once for each pixel of the side that has O channels.
double convolution(const Graph& graph, ValueId weight, ValueId output_side) {
  return 2.0 * numel(graph, output_side) * numel(graph, weight) / size(graph, weight, 0);
}

double conv(const Graph& g, const Node& n) {
  return 2.0 * static_cast<double>(n.outputs[0].shape.numel()) * numel(g, n.inputs[1]) /
         size(g, n.inputs[1], 0);
}
double conv_backward_data(const Graph& g, const Node& n) {
  return convolution(g, n.inputs[1], n.inputs[0]);
}
double conv_backward_weights(const Graph& g, const Node& n) {
  const Shape& weight = n.outputs[0].shape;
  return 2.0 * numel(g, n.inputs[1]) * static_cast<double>(weight.numel() / weight[0]);
}

double dense(const Graph& g, const Node& n) {
  return 2.0 * static_cast<double>(n.outputs[0].shape.numel()) * size(g, n.inputs[1], 1);
}
double dense_backward_data(const Graph& g, const Node& n) {
  return 2.0 * numel(g, n.inputs[0]) * size(g, n.inputs[1], 1);
}
double dense_backward_weights(const Graph& g, const Node& n) {
  return 2.0 * numel(g, n.inputs[1]) * static_cast<double>(n.outputs[0].shape[1]);
}

double matmul(const Graph& g, const Node& n) {
  const Shape& a = g.info(n.inputs[0]).shape;
  const bool transposed = std::get<bool>(attr_field(n.attrs, "transpose_a")) && a.rank() > 1;
  return 2.0 * static_cast<double>(n.outputs[0].shape.numel()) *
         static_cast<double>(a[a.rank() - (transposed ? 2 : 1)]);
}

// Inputs q [B, H, T, D] and k [B, H, S, D], counted from `first`.
double attention_product(const Graph& g, const Node& n, std::size_t first) {
  const bool causal = std::get<bool>(attr_field(n.attrs, "causal"));
  return 2.0 * numel(g, n.inputs[first]) * size(g, n.inputs[first + 1], 2) * (causal ? 0.5 : 1.0);
}
double attention(const Graph& g, const Node& n) { return 2.0 * attention_product(g, n, 0); }
double attention_backward(const Graph& g, const Node& n) {
  return 4.0 * attention_product(g, n, 1);
}

std::size_t first_of_rank(const Graph& g, const Node& n, int rank) {
  std::size_t i = 0;
  while (g.info(n.inputs[i]).shape.rank() != rank) ++i;
  return i;
}

// Every weight element serves each of the T N rows once. The two weights stand before the biases;
// whatever has three axes begins with T and N.
double rnn_forward(const Graph& g, const Node& n) {
  const std::size_t bias = first_of_rank(g, n, 1);
  const Shape& rows = g.info(n.inputs[first_of_rank(g, n, 3)]).shape;
  const double weights = numel(g, n.inputs[bias - 2]) + numel(g, n.inputs[bias - 1]);
  return 2.0 * weights * static_cast<double>(rows[0] * rows[1]);
}

}  // namespace

double count_flops(const Graph& graph, const Node& node) {
  const KnownOps& ops = known_ops();
  static const std::unordered_map<const OpDef*, Counter> counters{
      {&ops.conv, conv},
      {&ops.conv_backward_data, conv_backward_data},
      {&ops.conv_backward_weights, conv_backward_weights},
      {&ops.dense, dense},
      {&ops.dense_backward_data, dense_backward_data},
      {&ops.dense_backward_weights, dense_backward_weights},
      {&ops.matmul, matmul},
      {&ops.attention, attention},
      {&ops.attention_backward, attention_backward},
      {&ops.rnn_layer, rnn_forward},
      {&ops.rnn_layer_backward,
       [](const Graph& g, const Node& n) { return 2.0 * rnn_forward(g, n); }}};
  const auto counter = counters.find(node.op);
  return counter == counters.end() ? 0.0 : counter->second(graph, node);
}

double count_flops(const Graph& graph) {
  double total = 0;
  for (const Node& node : graph.nodes()) total += count_flops(graph, node);
  return total;
}

}  // namespace lockstep
