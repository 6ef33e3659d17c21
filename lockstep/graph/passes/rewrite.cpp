// SPDX-License-Identifier: Apache-2.0
#include "lockstep/graph/passes/rewrite.h"

namespace lockstep::passes {

Readers::Readers(const Graph& graph) : readers_(graph.nodes().size()) {
  const auto add = [&](ValueId value, Reader reader) {
    readers_[static_cast<std::size_t>(value.node)][static_cast<std::size_t>(value.output)]
        .push_back(reader);
  };
  for (std::size_t id = 0; id < readers_.size(); ++id) {
    readers_[id].resize(graph.nodes()[id].outputs.size());
    const std::vector<ValueId>& inputs = graph.nodes()[id].inputs;
    for (std::size_t slot = 0; slot < inputs.size(); ++slot)
      add(inputs[slot], {static_cast<std::int32_t>(id), slot});
  }
  for (std::size_t slot = 0; slot < graph.outputs().size(); ++slot)
    add(graph.outputs()[slot], {-1, slot});
}

// Inputs are copied at once, in order: a pass must keep them all.
Rewriter::Rewriter(const Graph& source) : source_(source), map_(source.nodes().size()) {
  for (std::size_t i = 0; i < map_.size(); ++i) map_[i].resize(source.nodes()[i].outputs.size());
  for (ValueId input : source.inputs())
    map(input,
        target_.add_input(source.info(input), source.node(input).name, source.node(input).slice));
}

void Rewriter::copy(std::int32_t id) {
  const Node& node = source_.node(id);
  if (node.is_input()) return;
  if (node.is_constant()) {
    map({id, 0}, target_.add_constant(node.constant, node.name));
    return;
  }
  replace(id, *node.op, at(node.inputs), node.attrs);
}

void Rewriter::replace(std::int32_t id, const OpDef& op, const std::vector<ValueId>& new_inputs,
                       const Attrs& attrs) {
  const ValueId first = target_.add_node(op, new_inputs, attrs, source_.node(id).name);
  const auto count = static_cast<std::int32_t>(
      std::min(source_.node(id).outputs.size(), target_.node(first).outputs.size()));
  for (std::int32_t i = 0; i < count; ++i) map({id, i}, {first.node, i});
}

void Rewriter::map(ValueId old_value, ValueId new_value) {
  map_[static_cast<std::size_t>(old_value.node)][static_cast<std::size_t>(old_value.output)] =
      new_value;
}

ValueId Rewriter::at(ValueId old_value) const {
  const ValueId value =
      map_[static_cast<std::size_t>(old_value.node)][static_cast<std::size_t>(old_value.output)];
  check(value.node >= 0, "a pass left out a value that is still read");
  return value;
}

std::vector<ValueId> Rewriter::at(const std::vector<ValueId>& old_values) const {
  std::vector<ValueId> values;
  for (ValueId value : old_values) values.push_back(at(value));
  return values;
}

Graph Rewriter::finish() {
  for (std::size_t i = 0; i < source_.outputs().size(); ++i)
    target_.add_output(at(source_.outputs()[i]), source_.output_names()[i],
                       source_.output_slices()[i]);
  return std::move(target_);
}

}  // namespace lockstep::passes
