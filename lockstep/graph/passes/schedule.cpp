// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include "lockstep/graph/passes/passes.h"
#include "lockstep/graph/passes/rewrite.h"

namespace lockstep::passes {
namespace {

// A node that only makes carried outputs moves up to where its inputs are ready and everybody else
// has read the states that it will overwrite. What feeds only such nodes stays where it is.
class Scheduler {
 public:
  Scheduler(const Graph& graph, const CompileOptions& options)
      : graph_(graph), readers_(graph), state_of_output_(graph.outputs().size()) {
    for (const Carry& carry : options.carries)
      if (!state_of_output_[carry.output]) state_of_output_[carry.output] = carry.input;
  }

  Graph run() {
    const auto count = static_cast<std::int32_t>(graph_.nodes().size());
    std::vector<std::vector<std::int32_t>> follow(graph_.nodes().size());
    std::vector<bool> moved(graph_.nodes().size(), false);
    for (std::int32_t id = 0; id < count; ++id) {
      const std::vector<std::size_t> carried = carried_inputs(id);
      if (carried.empty()) continue;
      follow[static_cast<std::size_t>(earliest(id, carried))].push_back(id);
      moved[static_cast<std::size_t>(id)] = true;
    }
    Rewriter rewriter(graph_);
    for (std::int32_t id = 0; id < count; ++id) {
      if (!moved[static_cast<std::size_t>(id)]) rewriter.copy(id);
      for (std::int32_t update : follow[static_cast<std::size_t>(id)]) rewriter.copy(update);
    }
    return rewriter.finish();
  }

 private:
  // The states that the node's outputs are carried into, if that is all they are used for.
  std::vector<std::size_t> carried_inputs(std::int32_t id) const {
    std::vector<std::size_t> states;
    if (graph_.node(id).op == nullptr) return {};
    for (std::size_t i = 0; i < graph_.node(id).outputs.size(); ++i)
      for (const Reader& reader : readers_.of({id, static_cast<std::int32_t>(i)})) {
        if (reader.node >= 0 || !state_of_output_[reader.slot]) return {};
        states.push_back(*state_of_output_[reader.slot]);
      }
    return states;
  }

  // The last node that must come before.
  std::int32_t earliest(std::int32_t id, const std::vector<std::size_t>& states) const {
    std::int32_t last = 0;
    for (ValueId input : graph_.node(id).inputs) last = std::max(last, input.node);
    for (std::size_t state : states) {
      const std::int32_t node = graph_.inputs()[state].node;
      last = std::max(last, node);
      for (const Reader& reader : readers_.of({node, 0}))
        if (reader.node < id) last = std::max(last, reader.node);
    }
    return last;
  }

  const Graph& graph_;
  Readers readers_;
  std::vector<std::optional<std::size_t>> state_of_output_;
};

}  // namespace

Graph schedule(const Graph& graph, const CompileOptions& options) {
  return options.carries.empty() ? graph : Scheduler(graph, options).run();
}

}  // namespace lockstep::passes
