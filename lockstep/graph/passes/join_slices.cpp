// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <unordered_set>

#include "lockstep/graph/passes/passes.h"
#include "lockstep/graph/passes/rewrite.h"
#include "lockstep/ops/known_ops.h"

namespace lockstep::passes {
namespace {

struct Part {
  ValueId value;  // what the slice's gradient is made of
  int axis;
  std::int64_t begin, end;
};

// The gradients of slices that together make up a tensor (q, k and v of one projection) are each
// padded with zeros to the whole and added. One concat does the same; and where they lie in one
// tensor as they would after the concat, that tensor is the whole.
class SliceJoiner {
 public:
  explicit SliceJoiner(const Graph& graph)
      : graph_(graph), rewriter_(graph), uses_(count_uses(graph)) {}

  Graph run() {
    const auto count = static_cast<std::int32_t>(graph_.nodes().size());
    for (std::int32_t id = 0; id < count; ++id)
      if (is(id, ops_.add)) mark_inner(id);
    for (std::int32_t id = 0; id < count; ++id)
      if (!is(id, ops_.add) || inner_.contains(id) || !join(id)) rewriter_.copy(id);
    return rewriter_.finish();
  }

 private:
  bool is(std::int32_t id, const OpDef& op) const { return graph_.node(id).op == &op; }

  bool used_once(ValueId value) const {
    return uses_[static_cast<std::size_t>(value.node)][static_cast<std::size_t>(value.output)] == 1;
  }

  // An add whose only reader is another add is not the root of its tree.
  void mark_inner(std::int32_t id) {
    for (ValueId input : graph_.node(id).inputs)
      if (is(input.node, ops_.add) && used_once(input)) inner_.insert(input.node);
  }

  bool join(std::int32_t root) {
    std::vector<Part> parts;
    if (!collect({root, 0}, true, parts) || parts.size() < 2) return false;
    std::sort(parts.begin(), parts.end(),
              [](const Part& a, const Part& b) { return a.begin < b.begin; });
    std::int64_t reached = 0;
    for (const Part& part : parts) {
      if (part.axis != parts[0].axis || part.begin != reached) return false;
      reached = part.end;
    }
    if (reached != graph_.node(root).outputs[0].shape[parts[0].axis]) return false;
    if (const auto whole = common_source(graph_.node(root).outputs[0], parts)) {
      const OpDef& reshape = ops_.reshape;
      const Shape& shape = graph_.node(root).outputs[0].shape;
      const AttrField field{"shape", Ints(shape.begin(), shape.end())};
      rewriter_.replace(root, reshape, {rewriter_.at(*whole)},
                        reshape.schema.make(reshape.name, {&field, 1}));
      return true;
    }
    std::vector<ValueId> inputs;
    for (const Part& part : parts) inputs.push_back(rewriter_.at(part.value));
    const OpDef& concat = ops_.concat;
    const AttrField axis{"axis", static_cast<std::int64_t>(parts[0].axis)};
    rewriter_.replace(root, concat, inputs, concat.schema.make(concat.name, {&axis, 1}));
    return true;
  }

  // Where a value's elements lie in the value that it is a view of, which is dense.
  struct Window {
    ValueId source;
    ViewSpec spec;
  };

  Window window_of(ValueId value) const {
    const TensorInfo& info = graph_.info(value);
    const Window own{value, {info.shape, contiguous_strides(info.shape), 0}};
    const Node& node = graph_.node(value);
    if (node.op == nullptr || node.op->kind != OpKind::view || node.op->view == nullptr) return own;
    const Window from = window_of(node.inputs[0]);
    const TensorInfo& input = graph_.info(node.inputs[0]);
    auto spec = node.op->view(input, from.spec.strides, node.attrs);
    if (!spec) return own;
    spec->offset += from.spec.offset;
    return {from.source, *spec};
  }

  static bool lies_in(const TensorInfo& whole, const Part& part, const ViewSpec& spec) {
    const Strides strides = contiguous_strides(whole.shape);
    if (spec.offset != part.begin * strides[part.axis]) return false;
    for (int i = 0; i < spec.shape.rank(); ++i)
      if (spec.shape[i] > 1 && spec.strides[i] != strides[i]) return false;
    return true;
  }

  std::optional<ValueId> common_source(const TensorInfo& whole,
                                       const std::vector<Part>& parts) const {
    const ValueId source = window_of(parts[0].value).source;
    if (graph_.info(source).shape.numel() != whole.shape.numel()) return std::nullopt;
    for (const Part& part : parts) {
      const Window window = window_of(part.value);
      if (window.source != source || !lies_in(whole, part, window.spec)) return std::nullopt;
    }
    return source;
  }

  bool collect(ValueId value, bool root, std::vector<Part>& parts) const {
    if (!root && !used_once(value)) return false;
    const Node& node = graph_.node(value);
    if (is(value.node, ops_.slice_backward)) {
      const std::optional<Part> part = part_of(node);
      if (part) parts.push_back(*part);
      return part.has_value();
    }
    if (!is(value.node, ops_.add)) return false;
    return std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
      return graph_.info(input).shape == node.outputs[0].shape && collect(input, false, parts);
    });
  }

  // A slice along one axis, without steps.
  static std::optional<Part> part_of(const Node& node) {
    const auto list = [&](const char* name) {
      return std::get<Ints>(attr_field(node.attrs, name));
    };
    const Ints begin = list("begin"), end = list("end"), step = list("step");
    if (std::any_of(step.begin(), step.end(), [](std::int64_t s) { return s != 1; }))
      return std::nullopt;
    const Shape& whole = node.outputs[0].shape;
    std::optional<Part> part;
    for (int axis = 0; axis < static_cast<int>(begin.size()); ++axis) {
      const auto at = static_cast<std::size_t>(axis);
      if (begin[at] < 0 || end[at] > whole[axis] || begin[at] > end[at]) return std::nullopt;
      if (begin[at] == 0 && end[at] == whole[axis]) continue;
      if (part) return std::nullopt;
      part = Part{node.inputs[0], axis, begin[at], end[at]};
    }
    return part;
  }

  const KnownOps& ops_ = known_ops();
  const Graph& graph_;
  Rewriter rewriter_;
  std::vector<std::vector<int>> uses_;
  std::unordered_set<std::int32_t> inner_;
};

}  // namespace

Graph join_slices(const Graph& graph) { return SliceJoiner(graph).run(); }

}  // namespace lockstep::passes
