// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <unordered_map>

#include "lockstep/graph/passes/passes.h"
#include "lockstep/graph/passes/rewrite.h"
#include "lockstep/ops/fused.h"

namespace lockstep::passes {
namespace {

constexpr std::size_t kLongestChain = 24;
constexpr std::size_t kMostInputs = 8;

// Groups are grown backwards from a node that ends one: a producer joins when everything that reads
// it is in the group already. So a group has one result, and no work is done twice.
class ElementwiseFuser {
 public:
  explicit ElementwiseFuser(const Graph& graph)
      : graph_(graph), readers_(graph), group_of_(graph.nodes().size(), -1) {}

  Graph run() {
    for (auto id = static_cast<std::int32_t>(graph_.nodes().size()) - 1; id >= 0; --id)
      if (group(id) < 0 && can_join(id)) grow(id);
    Rewriter rewriter(graph_);
    for (std::int32_t id = 0; id < static_cast<std::int32_t>(graph_.nodes().size()); ++id) {
      const std::int32_t end = group(id);
      if (end < 0 || members_[end].size() == 1)
        rewriter.copy(id);
      else if (end == id)
        emit(id, rewriter);
    }
    return rewriter.finish();
  }

 private:
  std::int32_t group(std::int32_t id) const { return group_of_[static_cast<std::size_t>(id)]; }

  bool can_join(std::int32_t id) const {
    const Node& node = graph_.node(id);
    if (node.op == nullptr || node.outputs.size() != 1 || !is_fusable(*node.op, node.attrs))
      return false;
    const TensorInfo& output = node.outputs[0];
    if (output.dtype != DType::float32 || output.shape.numel() <= 1) return false;
    return std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
      const TensorInfo& info = graph_.info(input);
      return info.dtype == DType::float32 &&
             (info.shape == output.shape || info.shape.numel() == 1);
    });
  }

  void grow(std::int32_t end) {
    std::vector<std::int32_t>& members = members_[end];
    members = {end};
    group_of_[static_cast<std::size_t>(end)] = end;
    for (std::size_t i = 0; i < members.size(); ++i) {
      for (ValueId input : graph_.node(members[i]).inputs) {
        if (members.size() >= kLongestChain) break;
        if (!joins(input, end)) continue;
        members.push_back(input.node);
        group_of_[static_cast<std::size_t>(input.node)] = end;
        i = static_cast<std::size_t>(-1);  // a reader that was missing may be in now
        break;
      }
    }
    std::sort(members.begin(), members.end());
    while (members.size() > 1 && inputs_of(members).size() > kMostInputs) {
      group_of_[static_cast<std::size_t>(members.front())] = -1;
      members.erase(members.begin());
    }
  }

  bool joins(ValueId value, std::int32_t end) const {
    if (group(value.node) >= 0 || !can_join(value.node)) return false;
    if (!(graph_.info(value).shape == graph_.node(end).outputs[0].shape)) return false;
    const std::vector<Reader>& readers = readers_.of(value);
    return std::all_of(readers.begin(), readers.end(), [&](const Reader& reader) {
      return reader.node >= 0 && group(reader.node) == end;
    });
  }

  std::vector<ValueId> inputs_of(const std::vector<std::int32_t>& members) const {
    std::vector<ValueId> inputs;
    for (std::int32_t id : members)
      for (ValueId input : graph_.node(id).inputs)
        if (std::find(members.begin(), members.end(), input.node) == members.end() &&
            std::find(inputs.begin(), inputs.end(), input) == inputs.end())
          inputs.push_back(input);
    return inputs;
  }

  void emit(std::int32_t end, Rewriter& rewriter) {
    const std::vector<std::int32_t>& members = members_[end];
    const std::vector<ValueId> inputs = inputs_of(members);
    std::vector<FusedInstruction> program;
    const auto register_of = [&](ValueId value) {
      const auto input = std::find(inputs.begin(), inputs.end(), value);
      if (input != inputs.end()) return static_cast<int>(input - inputs.begin());
      const auto member = std::find(members.begin(), members.end(), value.node);
      return static_cast<int>(inputs.size()) + static_cast<int>(member - members.begin());
    };
    for (std::int32_t id : members) {
      std::vector<int> operands;
      for (ValueId input : graph_.node(id).inputs) operands.push_back(register_of(input));
      program.push_back(
          make_instruction(*graph_.node(id).op, graph_.node(id).attrs, std::move(operands)));
    }
    rewriter.replace(end, fused_elementwise_op(), rewriter.at(inputs),
                     Attrs::of(FusedAttrs{to_text(program)}));
  }

  const Graph& graph_;
  Readers readers_;
  std::vector<std::int32_t> group_of_;  // the node that ends the group
  std::unordered_map<std::int32_t, std::vector<std::int32_t>> members_;
};

}  // namespace

Graph fuse_elementwise(const Graph& graph) { return ElementwiseFuser(graph).run(); }

}  // namespace lockstep::passes
