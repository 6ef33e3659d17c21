// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>

#include "lockstep/graph/passes/passes.h"
#include "lockstep/graph/passes/rewrite.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/known_ops.h"
#include "lockstep/ops/slice_ops.h"

namespace lockstep::passes {
namespace {

// Larger results are cheaper to compute again than to keep.
constexpr std::size_t kLargestFolded = 64 << 10;

std::vector<bool> find_live(const Graph& graph) {
  std::vector<bool> live(graph.nodes().size(), false);
  for (ValueId output : graph.outputs()) live[static_cast<std::size_t>(output.node)] = true;
  for (std::size_t id = graph.nodes().size(); id-- > 0;)
    if (live[id])
      for (ValueId input : graph.nodes()[id].inputs)
        live[static_cast<std::size_t>(input.node)] = true;
  return live;
}

class Simplifier {
 public:
  explicit Simplifier(const Graph& graph) : graph_(graph), rewriter_(graph) {}

  Graph run() {
    const std::vector<bool> live = find_live(graph_);
    for (std::size_t id = 0; id < live.size(); ++id)
      if (live[id]) visit(static_cast<std::int32_t>(id));
    return rewriter_.finish();
  }

 private:
  void visit(std::int32_t id) {
    const Node& node = graph_.node(id);
    if (node.is_constant()) {
      rewriter_.map({id, 0}, constant(node.constant, node.name));
      return;
    }
    if (node.op == nullptr) return;
    const std::vector<ValueId> inputs = rewriter_.at(node.inputs);
    if (const auto same = identity(node, inputs)) {
      rewriter_.map({id, 0}, *same);
      return;
    }
    if (fold(id, node, inputs)) return;
    if (const auto twin = find_twin(node, inputs)) {
      for (std::size_t i = 0; i < node.outputs.size(); ++i)
        rewriter_.map({id, static_cast<std::int32_t>(i)}, {*twin, static_cast<std::int32_t>(i)});
      return;
    }
    rewriter_.replace(id, *node.op, inputs, node.attrs);
    seen_.emplace(hash(node, inputs), rewriter_.at(ValueId{id, 0}).node);
  }

  // Single elements with equal bits are one constant.
  ValueId constant(const Tensor& value, const std::string& name) {
    if (value.numel() != 1) return rewriter_.target().add_constant(value, name);
    const Tensor seen = value.to(cpu());
    const std::string key =
        fmt::format("{} {} {} ", value.info().str(), value.device().index,
                    static_cast<const void*>(value.device().backend)) +
        std::string(reinterpret_cast<const char*>(seen.raw()), item_size(value.dtype()));
    const auto known = scalars_.find(key);
    if (known != scalars_.end()) return known->second;
    const ValueId id = rewriter_.target().add_constant(value.contiguous(), name);
    scalars_.emplace(key, id);
    return id;
  }

  bool is_number(ValueId value, double number) {
    const Node& node = rewriter_.target().node(value);
    if (!node.is_constant() || node.constant.numel() != 1) return false;
    const double held = node.constant.to(cpu()).item();
    return held == number && std::signbit(held) == std::signbit(number);
  }

  // The input that the node's only output equals, if there is one.
  std::optional<ValueId> identity(const Node& node, const std::vector<ValueId>& inputs) {
    const auto unchanged = [&](ValueId value) {
      return rewriter_.target().info(value) == node.outputs[0];
    };
    const KnownOps& ops = known_ops();
    const OpDef* op = node.op;
    if (op == &ops.stop_gradient) return inputs[0];
    if ((op == &ops.reshape || op == &ops.expand || op == &ops.cast || op == &ops.squeeze) &&
        unchanged(inputs[0]))
      return inputs[0];
    // x + 0 is not x when x is -0; x - 0 and x + (-0) are.
    if (op == &ops.subtract && unchanged(inputs[0]) && is_number(inputs[1], 0.0)) return inputs[0];
    if (op == &ops.add && unchanged(inputs[0]) && is_number(inputs[1], -0.0)) return inputs[0];
    if ((op == &ops.multiply || op == &ops.divide) && unchanged(inputs[0]) &&
        is_number(inputs[1], 1.0))
      return inputs[0];
    if (op == &ops.add && unchanged(inputs[1]) && is_number(inputs[0], -0.0)) return inputs[1];
    if (op == &ops.multiply && unchanged(inputs[1]) && is_number(inputs[0], 1.0)) return inputs[1];
    return std::nullopt;
  }

  bool fold(std::int32_t id, const Node& node, const std::vector<ValueId>& inputs) {
    std::size_t bytes = 0;
    for (const TensorInfo& info : node.outputs) bytes += info.bytes();
    if (bytes > kLargestFolded || is_slice_transfer(*node.op)) return false;
    std::vector<Tensor> values;
    for (ValueId input : inputs) {
      const Node& producer = rewriter_.target().node(input);
      if (!producer.is_constant()) return false;
      values.push_back(producer.constant);
    }
    const InterceptScope unseen(nullptr);
    const std::vector<Tensor> results = apply(*node.op, values, node.attrs);
    for (std::size_t i = 0; i < results.size(); ++i)
      rewriter_.map({id, static_cast<std::int32_t>(i)}, constant(results[i], node.name));
    return true;
  }

  static std::size_t hash(const Node& node, const std::vector<ValueId>& inputs) {
    std::size_t seed = std::hash<const void*>{}(node.op) * 31 + node.attrs.hash();
    for (ValueId input : inputs)
      seed = seed * 1000003 + static_cast<std::size_t>(input.node) * 8 +
             static_cast<std::size_t>(input.output);
    return seed;
  }

  std::optional<std::int32_t> find_twin(const Node& node, const std::vector<ValueId>& inputs) {
    const auto [begin, end] = seen_.equal_range(hash(node, inputs));
    for (auto it = begin; it != end; ++it) {
      const Node& other = rewriter_.target().node(it->second);
      if (other.op == node.op && other.inputs == inputs && other.attrs == node.attrs)
        return it->second;
    }
    return std::nullopt;
  }

  const Graph& graph_;
  Rewriter rewriter_;
  std::unordered_multimap<std::size_t, std::int32_t> seen_;
  std::unordered_map<std::string, ValueId> scalars_;
};

}  // namespace

Graph simplify(const Graph& graph) { return Simplifier(graph).run(); }

}  // namespace lockstep::passes
