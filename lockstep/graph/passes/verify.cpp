// SPDX-License-Identifier: Apache-2.0
#include "lockstep/graph/passes/passes.h"
#include "lockstep/graph/slice_types.h"
#include "lockstep/ops/dispatch.h"

namespace lockstep::passes {
namespace {

class Verifier {
 public:
  Verifier(const Graph& graph, const char* pass) : graph_(graph), pass_(pass) {}

  void run() {
    for (std::size_t id = 0; id < graph_.nodes().size(); ++id) check_node(id);
    for (ValueId input : graph_.inputs())
      if (!exists(input, graph_.nodes().size()) || !graph_.node(input).is_input())
        fail("an input of the graph is not an input node", input.node);
    for (ValueId output : graph_.outputs())
      if (!exists(output, graph_.nodes().size()))
        fail("an output of the graph does not exist", output.node);
    if (const auto fault = find_slice_fault(graph_)) fail(fault->what, fault->node);
  }

 private:
  [[noreturn]] void fail(const std::string& what, std::int32_t node) const {
    throw InternalError(
        fmt::format("internal error: after {}: node %{}: {}; please report it", pass_, node, what));
  }

  bool exists(ValueId value, std::size_t before) const {
    return value.node >= 0 && static_cast<std::size_t>(value.node) < before && value.output >= 0 &&
           static_cast<std::size_t>(value.output) < graph_.node(value).outputs.size();
  }

  void check_node(std::size_t id) const {
    const Node& node = graph_.nodes()[id];
    const auto here = static_cast<std::int32_t>(id);
    if (node.op == nullptr) {
      if (!node.inputs.empty() || node.outputs.size() != 1) fail("a leaf with inputs", here);
      return;
    }
    Infos infos;
    for (ValueId input : node.inputs) {
      if (!exists(input, id)) fail("reads a value that does not exist before it", here);
      infos.push_back(graph_.info(input));
    }
    if (infer(*node.op, infos, node.attrs) != node.outputs)
      fail(fmt::format("{} infers other outputs than it carries", node.op->name), here);
  }

  const Graph& graph_;
  const char* pass_;
};

}  // namespace

void verify(const Graph& graph, const char* after_pass) { Verifier(graph, after_pass).run(); }

}  // namespace lockstep::passes
