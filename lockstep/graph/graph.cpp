// SPDX-License-Identifier: Apache-2.0
#include "lockstep/graph/graph.h"

#include "lockstep/ops/dispatch.h"
#include "lockstep/tensor/sizes.h"

namespace lockstep {
namespace {

std::string value_name(const Graph& graph, ValueId value) {
  const Node& node = graph.node(value);
  std::string name = fmt::format("%{}", value.node);
  if (node.outputs.size() > 1) name += fmt::format(".{}", value.output);
  return name;
}

std::string describe(const Graph& graph, std::int32_t id) {
  const Node& node = graph.node(id);
  std::string line = fmt::format("%{} = ", id);
  if (node.op == nullptr) {
    line += fmt::format("{} '{}'", node.is_constant() ? "constant" : "input", node.name);
  } else {
    line += std::string(node.op->name) + "(";
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      line += (i ? ", " : "") + value_name(graph, node.inputs[i]);
    const std::string attrs = node.attrs.str();
    line += (attrs.empty() ? "" : "; " + attrs) + ")";
  }
  line += " :";
  for (const TensorInfo& info : node.outputs) line += " " + info.str();
  return line;
}

}  // namespace

ValueId Graph::push(Node node) {
  nodes_.push_back(std::move(node));
  return {static_cast<std::int32_t>(nodes_.size()) - 1, 0};
}

ValueId Graph::add_input(const TensorInfo& info, std::string name, std::int32_t slice) {
  detail::checked_shape("graph", info.shape, item_size(info.dtype));
  Node node;
  node.outputs = {info};
  node.name = std::move(name);
  node.slice = slice;
  const ValueId value = push(std::move(node));
  inputs_.push_back(value);
  return value;
}

ValueId Graph::add_constant(Tensor value, std::string name) {
  check(value.defined() && !value.is_symbolic(), "a constant needs contents");
  Node node;
  node.outputs = {value.info()};
  node.name = std::move(name);
  node.constant = std::move(value);
  return push(std::move(node));
}

ValueId Graph::add_node(const OpDef& op, std::vector<ValueId> inputs, Attrs attrs,
                        std::string name) {
  Infos infos;
  for (ValueId input : inputs) infos.push_back(info(input));
  Node node;
  node.outputs = infer(op, infos, attrs);
  node.op = &op;
  node.attrs = std::move(attrs);
  node.inputs = std::move(inputs);
  node.name = std::move(name);
  return push(std::move(node));
}

void Graph::add_output(ValueId value, std::string name, std::int32_t slice) {
  info(value);
  outputs_.push_back(value);
  output_names_.push_back(std::move(name));
  output_slices_.push_back(slice);
}

const TensorInfo& Graph::info(ValueId value) const {
  check(value.node >= 0 && static_cast<std::size_t>(value.node) < nodes_.size(),
        "no such node in the graph");
  const Node& producer = node(value);
  check(value.output >= 0 && static_cast<std::size_t>(value.output) < producer.outputs.size(),
        "no such output of the node");
  return producer.outputs[static_cast<std::size_t>(value.output)];
}

Infos Graph::input_infos() const {
  Infos infos;
  for (ValueId input : inputs_) infos.push_back(info(input));
  return infos;
}

std::string Graph::str() const {
  std::string text;
  for (std::size_t id = 0; id < nodes_.size(); ++id)
    text += describe(*this, static_cast<std::int32_t>(id)) + "\n";
  text += "return";
  for (ValueId value : outputs_) text += " " + value_name(*this, value);
  return text + "\n";
}

std::vector<std::vector<int>> count_uses(const Graph& graph) {
  std::vector<std::vector<int>> uses;
  for (const Node& node : graph.nodes()) uses.emplace_back(node.outputs.size(), 0);
  const auto read = [&](ValueId value) {
    ++uses[static_cast<std::size_t>(value.node)][static_cast<std::size_t>(value.output)];
  };
  for (const Node& node : graph.nodes())
    for (ValueId input : node.inputs) read(input);
  for (ValueId output : graph.outputs()) read(output);
  return uses;
}

}  // namespace lockstep
