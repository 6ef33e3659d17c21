// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/detail/lookups.h"

#include "lockstep/ops/known_ops.h"

namespace lockstep::train::detail {
namespace {

// "tower.tokens" of "tower.tokens.weight".
std::string block_of(const std::string& parameter) {
  const std::size_t dot = parameter.rfind('.');
  return dot == std::string::npos ? "the net" : "block " + parameter.substr(0, dot);
}

[[noreturn]] void refuse(const std::string& name, std::string_view op) {
  throw InvalidArgument(
      "train: parameter {} of {} has sparse gradients, and {} uses it: expected embedding() alone "
      "to read it, or sparse_grad = false",
      name, block_of(name), op);
}

void check_readers(const Graph& graph, const std::string& name, ValueId table) {
  for (const Node& node : graph.nodes())
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (node.inputs[i] == table && (node.op != &known_ops().embedding || i != 1))
        refuse(name, node.op->name);
}

// A sum's terms, from the left.
void collect(const Graph& graph, const std::string& name, ValueId gradient,
             std::vector<Lookup>& lookups) {
  const Node& node = graph.node(gradient);
  if (node.op == &known_ops().embedding_backward) {
    lookups.push_back({node.inputs[1], node.inputs[0]});
    return;
  }
  if (node.op == &known_ops().full) return;  // of zeros: no lookup leads to the loss
  if (node.op != &known_ops().add) refuse(name, node.op == nullptr ? "the loss" : node.op->name);
  for (const ValueId term : node.inputs) collect(graph, name, term, lookups);
}

}  // namespace

std::vector<Lookup> find_lookups(const Graph& graph, const std::string& name, ValueId input,
                                 ValueId gradient) {
  check_readers(graph, name, input);
  std::vector<Lookup> lookups;
  collect(graph, name, gradient, lookups);
  return lookups;
}

}  // namespace lockstep::train::detail
