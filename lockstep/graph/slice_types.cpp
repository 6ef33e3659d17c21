// SPDX-License-Identifier: Apache-2.0
#include "lockstep/graph/slice_types.h"

#include <map>

#include "lockstep/base/error.h"
#include "lockstep/ops/slice_ops.h"

namespace lockstep {
namespace {

std::string text_of(std::int32_t type) {
  if (type == kNoSlice) return "a constant";
  return type == kSameForSlices ? "what is the same for all slices" : fmt::format("slice {}", type);
}

class TypeInference {
 public:
  explicit TypeInference(const Graph& graph) : graph_(graph) {
    types_.reserve(graph.nodes().size());
    for (std::size_t id = 0; id < graph.nodes().size(); ++id) add(id);
    for (std::size_t i = 0; i < graph.outputs().size(); ++i) check_output(i);
  }

  const std::optional<SliceFault>& fault() const { return fault_; }
  SliceTypes take() { return std::move(types_); }

 private:
  std::int32_t type(ValueId value) const {
    return types_[static_cast<std::size_t>(value.node)][static_cast<std::size_t>(value.output)];
  }

  void fail(std::size_t id, std::string what) {
    if (!fault_) fault_ = {static_cast<std::int32_t>(id), std::move(what)};
  }

  void add(std::size_t id) {
    const Node& node = graph_.nodes()[id];
    if (node.op == nullptr || node.inputs.empty())
      return types_.push_back(
          {std::vector(node.outputs.size(), node.is_input() ? node.slice : kNoSlice)});
    if (!is_slice_transfer(*node.op))
      return types_.push_back(std::vector(node.outputs.size(), joined(id, node)));
    const auto& attrs = node.attrs.as<SliceTransferAttrs>();
    std::vector<std::int32_t> outputs;
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      expect(id, node, i, ends_slices(*node.op) ? slice(attrs, i) : kSameForSlices);
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      outputs.push_back(ends_slices(*node.op) ? kSameForSlices : slice(attrs, i));
    types_.push_back(std::move(outputs));
  }

  static std::int32_t slice(const SliceTransferAttrs& attrs, std::size_t i) {
    return static_cast<std::int32_t>(attrs.first) + static_cast<std::int32_t>(i);
  }

  void expect(std::size_t id, const Node& node, std::size_t input, std::int32_t expected) {
    const std::int32_t got = type(node.inputs[input]);
    if (got != expected && got != kNoSlice)
      fail(id, fmt::format("{} reads {} for {}", node.op->name, text_of(got), text_of(expected)));
  }

  std::int32_t joined(std::size_t id, const Node& node) {
    std::int32_t all = kNoSlice;
    for (const ValueId input : node.inputs) {
      const std::int32_t its = type(input);
      if (its == kNoSlice || its == all) continue;
      if (all != kNoSlice)
        fail(id, fmt::format("{} reads {} beside {}: a transfer is missing", node.op->name,
                             text_of(its), text_of(all)));
      all = its;
    }
    return all;
  }

  void check_output(std::size_t i) {
    const ValueId value = graph_.outputs()[i];
    const std::int32_t got = type(value), expected = graph_.output_slices()[i];
    if (got != expected && got != kNoSlice)
      fail(static_cast<std::size_t>(value.node),
           fmt::format("output {} is {}, expected {}", graph_.output_names()[i], text_of(got),
                       text_of(expected)));
  }

  const Graph& graph_;
  SliceTypes types_;
  std::optional<SliceFault> fault_;
};

// Copies what some of the slices need.
class SliceTaker {
 public:
  SliceTaker(const Graph& graph, std::int64_t lo, std::int64_t hi)
      : graph_(graph), types_(infer_slices(graph)), lo_(lo), hi_(hi) {}

  SlicesOf run() {
    for (std::size_t i = 0; i < graph_.inputs().size(); ++i) {
      const ValueId input = graph_.inputs()[i];
      const Node& node = graph_.node(input);
      if (!is_here(node.slice)) continue;
      taken_.inputs.push_back(i);
      copies_[{input.node, 0}] = taken_.graph.add_input(graph_.info(input), node.name, node.slice);
    }
    for (std::size_t id = 0; id < graph_.nodes().size(); ++id) copy(id);
    for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
      const std::int32_t slice = graph_.output_slices()[i];
      if (!is_here(slice)) continue;
      taken_.outputs.push_back(i);
      taken_.graph.add_output(at(graph_.outputs()[i]), graph_.output_names()[i], slice);
    }
    return std::move(taken_);
  }

 private:
  bool is_here(std::int32_t type) const { return type < 0 || (type >= lo_ && type < hi_); }
  ValueId at(ValueId value) const { return copies_.at({value.node, value.output}); }

  void map(std::size_t id, std::size_t output, ValueId copy) {
    copies_[{static_cast<std::int32_t>(id), static_cast<std::int32_t>(output)}] = copy;
  }

  void copy(std::size_t id) {
    const Node& node = graph_.nodes()[id];
    if (node.is_input()) return;
    if (node.is_constant()) return map(id, 0, taken_.graph.add_constant(node.constant, node.name));
    if (!node.inputs.empty() && is_slice_transfer(*node.op)) return copy_transfer(id, node);
    if (!is_here(types_[id][0])) return;
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(at(input));
    const ValueId first = taken_.graph.add_node(*node.op, std::move(inputs), node.attrs, node.name);
    for (std::size_t k = 0; k < node.outputs.size(); ++k)
      map(id, k, {first.node, static_cast<std::int32_t>(k)});
  }

  void copy_transfer(std::size_t id, const Node& node) {
    SliceTransferAttrs attrs = node.attrs.as<SliceTransferAttrs>();
    const auto lo = static_cast<std::size_t>(lo_), hi = static_cast<std::size_t>(hi_);
    attrs.first = lo_;
    attrs.last = hi_;
    const bool ends = ends_slices(*node.op);
    std::vector<ValueId> inputs;
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (!ends || (i >= lo && i < hi)) inputs.push_back(at(node.inputs[i]));
    const ValueId first =
        taken_.graph.add_node(*node.op, std::move(inputs), Attrs::of(attrs), node.name);
    if (ends) return map(id, 0, first);
    for (std::size_t k = lo; k < hi; ++k)
      map(id, k, {first.node, static_cast<std::int32_t>(k - lo)});
  }

  const Graph& graph_;
  SliceTypes types_;
  std::int64_t lo_, hi_;
  SlicesOf taken_;
  std::map<std::pair<std::int32_t, std::int32_t>, ValueId> copies_;
};

}  // namespace

std::optional<SliceFault> find_slice_fault(const Graph& graph) {
  return TypeInference(graph).fault();
}

SliceTypes infer_slices(const Graph& graph) {
  TypeInference inference(graph);
  if (const auto& fault = inference.fault())
    throw InternalError(
        fmt::format("internal error: node %{}: {}; please report it", fault->node, fault->what));
  return inference.take();
}

SlicesOf take_slices(const Graph& graph, std::int64_t lo, std::int64_t hi) {
  return SliceTaker(graph, lo, hi).run();
}

}  // namespace lockstep
