// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <map>

#include "lockstep/graph/passes/passes.h"
#include "lockstep/graph/passes/rewrite.h"
#include "lockstep/ops/known_ops.h"

namespace lockstep::passes {
namespace {

// Where the arithmetic is. Their kernels add up in float32 whatever they read.
const std::array<const OpDef*, 7>& products() {
  const KnownOps& ops = known_ops();
  static const std::array<const OpDef*, 7> all{
      &ops.conv,  &ops.conv_backward_data,  &ops.conv_backward_weights,
      &ops.dense, &ops.dense_backward_data, &ops.dense_backward_weights,
      &ops.matmul};
  return all;
}

class PrecisionMixer {
 public:
  PrecisionMixer(const Graph& graph, DType dtype)
      : graph_(graph), dtype_(dtype), rewriter_(graph) {}

  Graph run() {
    for (std::int32_t id = 0; id < static_cast<std::int32_t>(graph_.nodes().size()); ++id)
      if (is_product(graph_.node(id)))
        convert(id);
      else
        rewriter_.copy(id);
    return rewriter_.finish();
  }

 private:
  ValueId cast(ValueId value, DType dtype) {
    const OpDef& op = known_ops().cast;
    const AttrField field{"dtype", dtype};
    return rewriter_.target().add_node(op, {value}, op.schema.make(op.name, {&field, 1}));
  }

  // The value as a product reads it: what another product made, before it was widened, or a cast.
  ValueId narrow(ValueId value) {
    const ValueId wide = rewriter_.at(value);
    const auto [place, fresh] = narrow_.try_emplace({wide.node, wide.output});
    if (fresh) place->second = cast(wide, dtype_);
    return place->second;
  }

  void convert(std::int32_t id) {
    const Node& node = graph_.node(id);
    std::vector<ValueId> inputs;
    for (ValueId input : node.inputs) inputs.push_back(narrow(input));
    const ValueId product = rewriter_.target().add_node(*node.op, inputs, node.attrs, node.name);
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(node.outputs.size()); ++i) {
      const ValueId result{product.node, i};
      const ValueId wide = cast(result, DType::float32);
      narrow_[{wide.node, wide.output}] = result;
      rewriter_.map({id, i}, wide);
    }
  }

  const Graph& graph_;
  DType dtype_;
  Rewriter rewriter_;
  std::map<std::pair<std::int32_t, std::int32_t>, ValueId> narrow_;
};

}  // namespace

bool is_product(const Node& node) {
  return node.op != nullptr && node.outputs[0].dtype == DType::float32 &&
         std::find(products().begin(), products().end(), node.op) != products().end();
}

Graph mix_precision(const Graph& graph, DType dtype) { return PrecisionMixer(graph, dtype).run(); }

}  // namespace lockstep::passes
