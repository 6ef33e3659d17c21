// SPDX-License-Identifier: Apache-2.0
#include "lockstep/graph/split.h"

#include <algorithm>
#include <map>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

using Place = std::pair<std::int32_t, std::int32_t>;

Place place(ValueId value) { return {value.node, value.output}; }

// Which nodes the given outputs of a graph depend on.
std::vector<bool> needed_by(const Graph& graph, std::span<const ValueId> outputs) {
  std::vector<bool> needed(graph.nodes().size(), false);
  for (const ValueId output : outputs) needed[static_cast<std::size_t>(output.node)] = true;
  for (std::size_t id = graph.nodes().size(); id-- > 0;)
    if (needed[id])
      for (const ValueId input : graph.nodes()[id].inputs)
        needed[static_cast<std::size_t>(input.node)] = true;
  return needed;
}

// Copies of nodes of one graph in another.
class Copier {
 public:
  Copier(const Graph& from, Graph& to) : from_(from), to_(to) {}

  void set(ValueId value, ValueId copy) { copies_[place(value)] = copy; }
  void add_input(ValueId value) {
    set(value, to_.add_input(from_.info(value), from_.node(value).name));
  }
  ValueId get(ValueId value) const { return copies_.at(place(value)); }

  void add(std::int32_t id) {
    const Node& node = from_.node(id);
    if (node.is_constant()) return set({id, 0}, to_.add_constant(node.constant, node.name));
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(get(input));
    const ValueId first = to_.add_node(*node.op, std::move(inputs), node.attrs, node.name);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const auto output = static_cast<std::int32_t>(i);
      if (!copies_.contains({id, output})) set({id, output}, {first.node, output});
    }
  }

 private:
  const Graph& from_;
  Graph& to_;
  std::map<Place, ValueId> copies_;
};

class Splitter {
 public:
  Splitter(const Graph& graph, std::size_t inputs, std::size_t outputs)
      : graph_(graph), inputs_(inputs), outputs_(outputs) {
    const std::span<const ValueId> all(graph.outputs());
    in_first_ = needed_by(graph, all.first(outputs));
    for (std::size_t i = inputs; i < graph.inputs().size(); ++i)
      if (in_first_[static_cast<std::size_t>(graph.inputs()[i].node)])
        throw InvalidArgument("split: the first {} outputs depend on input {}", outputs, i);
    for (const ValueId output : all.subspan(outputs)) look_at(output);
    for (std::size_t id = graph.nodes().size(); id-- > 0;)
      if (in_second_.contains(static_cast<std::int32_t>(id)))
        for (const ValueId input : graph.nodes()[id].inputs) look_at(input);
  }

  TwoParts parts() {
    TwoParts made;
    write_first(made);
    write_second(made);
    return made;
  }

 private:
  // A value that the second part reads: made there, or kept from the first.
  void look_at(ValueId value) {
    const Node& node = graph_.node(value);
    if (node.is_input()) return;
    if (!node.is_constant() && in_first_[static_cast<std::size_t>(value.node)])
      crossing_.emplace(place(value), value);
    else
      in_second_[value.node] = true;
  }

  void write_first(TwoParts& made) const {
    Copier copier(graph_, made.first);
    for (std::size_t i = 0; i < inputs_; ++i) copier.add_input(graph_.inputs()[i]);
    for (std::size_t id = 0; id < graph_.nodes().size(); ++id)
      if (in_first_[id] && !graph_.nodes()[id].is_input())
        copier.add(static_cast<std::int32_t>(id));
    for (std::size_t i = 0; i < outputs_; ++i)
      made.first.add_output(copier.get(graph_.outputs()[i]));
    const std::span<const ValueId> own = std::span(graph_.outputs()).first(outputs_);
    for (const auto& [_, value] : crossing_) {
      const auto found = std::find(own.begin(), own.end(), value);
      if (found != own.end()) {
        made.kept.push_back(static_cast<std::size_t>(found - own.begin()));
        continue;
      }
      made.kept.push_back(made.first.outputs().size());
      made.first.add_output(copier.get(value));
    }
  }

  void write_second(TwoParts& made) const {
    Copier copier(graph_, made.second);
    for (std::size_t i = 0; i < inputs_; ++i) copier.add_input(graph_.inputs()[i]);
    for (const auto& [_, value] : crossing_)
      copier.set(value, made.second.add_input(graph_.info(value), "kept"));
    for (std::size_t i = inputs_; i < graph_.inputs().size(); ++i)
      copier.add_input(graph_.inputs()[i]);
    for (const auto& [id, _] : in_second_) copier.add(id);
    for (std::size_t i = outputs_; i < graph_.outputs().size(); ++i)
      made.second.add_output(copier.get(graph_.outputs()[i]));
  }

  const Graph& graph_;
  std::size_t inputs_, outputs_;
  std::vector<bool> in_first_;
  std::map<std::int32_t, bool> in_second_;  // nodes, in order
  std::map<Place, ValueId> crossing_;
};

}  // namespace

TwoParts split(const Graph& graph, std::size_t inputs, std::size_t outputs) {
  if (inputs > graph.inputs().size() || outputs > graph.outputs().size())
    throw InvalidArgument("split: {} inputs and {} outputs of a graph that has {} and {}", inputs,
                          outputs, graph.inputs().size(), graph.outputs().size());
  return Splitter(graph, inputs, outputs).parts();
}

}  // namespace lockstep
