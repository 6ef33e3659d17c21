// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/slice_plan.h"

#include <fnmatch.h>

#include <set>

#include "lockstep/autograd/autograd.h"
#include "lockstep/base/error.h"
#include "lockstep/graph/trace.h"
#include "lockstep/nn/layers/attention.h"
#include "lockstep/ops/random_ops.h"

namespace lockstep::train {
namespace {

// The parameter's name without its last part.
std::string layer_of(const std::string& parameter) {
  const std::size_t dot = parameter.rfind('.');
  return dot == std::string::npos ? "" : parameter.substr(0, dot);
}

// How the units of an attention's projections belong together, by layer.
struct Heads {
  std::int64_t groups, units;
};

void find_heads(const nn::Block& block, const std::string& path,
                std::map<std::string, Heads>& heads) {
  const std::string prefix = path.empty() ? "" : path + ".";
  if (const auto* attention = dynamic_cast<const nn::MultiHeadAttention*>(&block)) {
    heads[prefix + "qkv"] = {3, attention->heads()};
    for (const char* name : {"q", "k", "v"}) heads[prefix + name] = {1, attention->heads()};
  }
  for (const nn::Block::Child& child : block.children())
    find_heads(*child.block, prefix + child.name, heads);
}

class Planner {
 public:
  Planner(nn::Block& net, const LossFunction& loss, const std::vector<TensorInfo>& fields,
          const FieldRoles& roles, std::int64_t slices)
      : net_(net), loss_(loss), fields_(fields), roles_(resolve_fields(roles, fields.size())) {
    plan_.slices = slices;
    std::vector<TensorInfo> on_host = fields;
    for (TensorInfo& info : on_host) info.device = {};
    complete_shapes(net, loss, inputs_of(roles_, on_host), labels_of(roles_, on_host));
    find_heads(net, "", heads_);
    parameters_ = trained_parameters(net, loss);
  }

  void ask_for(const std::vector<Split>& splits) {
    for (const Split& split : splits) {
      bool found = false;
      for (const auto& [name, parameter] : parameters_) {
        if (fnmatch(split.layers.c_str(), layer_of(name).c_str(), 0) != 0) continue;
        ways_[layer_of(name)] = split.way;
        found = true;
      }
      if (!found)
        throw InvalidArgument(
            "slices: '{}' names no layer of the net that has parameters: expected one such as {}",
            split.layers, parameters_.empty() ? "fc1" : layer_of(parameters_[0].name));
    }
  }

  // Where a table turns out to be a later layer's weights too, once more.
  SlicePlan run() {
    while (!trace()) continue;
    for (const auto& [layer, way] : ways_) check_split(layer, way);
    return std::move(plan_);
  }

 private:
  SplitWay way_of(const std::string& parameter) const {
    if (const auto tied = tied_.find(parameter); tied != tied_.end()) return SplitWay::rows;
    const auto found = ways_.find(layer_of(parameter));
    return found == ways_.end() ? SplitWay::automatic : found->second;
  }

  bool trace() {
    plan_.cuts.clear();
    Graph graph;
    Tracer tracer(graph);
    Tensors given;
    for (const TensorInfo& field : fields_) given.push_back(tracer.input(field, ""));
    const Tensor key = tracer.input({{3}, DType::int64, fields_[0].device}, "key");
    SliceTracer slicing(plan_.slices);
    std::map<const void*, Tensor> values;
    for (const auto& [name, parameter] : parameters_)
      values[parameter.identity()] = value_of(name, parameter, tracer, slicing);
    const InterceptScope tracing(&tracer);
    const autograd::RecordScope train_mode;
    const InterceptScope by_slices(&slicing);
    const RandomScope draws(key);
    const nn::ParameterScope scope(
        [&](const nn::Parameter& p) { return values.at(p.identity()); },
        [&](const nn::Parameter& p, const Tensor& value) { values[p.identity()] = value; });
    const Tensors outputs = net_(inputs_of(roles_, given));
    loss_.mean(outputs, labels_of(roles_, given));
    return !found_ties(slicing);
  }

  Tensor value_of(const std::string& name, const nn::Parameter& parameter, Tracer& tracer,
                  SliceTracer& slicing) {
    const TensorInfo info{parameter.shape(), parameter.dtype(), fields_[0].device};
    const SplitWay way = way_of(name);
    if (!parameter.options().trainable || parameter.options().sparse_grad || way == SplitWay::none)
      return tracer.input(info, name);
    const auto found = heads_.find(layer_of(name));
    const Heads heads = found == heads_.end() ? Heads{1, 0} : found->second;
    return slicing.undecided(
        info, {.name = name,
               .way = way,
               .groups = heads.groups,
               .units = heads.units,
               .decide = [this, name, info, &tracer](const std::optional<SliceCut>& cut) {
                 return decide(name, info, cut, tracer);
               }});
  }

  std::vector<Tensor> decide(const std::string& name, const TensorInfo& whole,
                             const std::optional<SliceCut>& cut, Tracer& tracer) {
    if (!cut) return {tracer.input(whole, name)};
    plan_.cuts[name] = *cut;
    std::vector<Tensor> parts;
    for (std::int32_t k = 0; k < plan_.slices; ++k)
      parts.push_back(
          tracer.input({cut->shape_of(whole.shape, k), whole.dtype, whole.device}, name, k));
    return parts;
  }

  bool found_ties(const SliceTracer& slicing) {
    bool found = false;
    for (const auto& [name, ops] : slicing.readers()) {
      const auto cut = plan_.cuts.find(name);
      if (ops.size() > 1 && ops.contains("embedding") && cut != plan_.cuts.end() &&
          cut->second.axis == 1 && way_of(name) == SplitWay::automatic)
        found = tied_.insert(name).second || found;
    }
    return found;
  }

  void check_split(const std::string& layer, SplitWay way) const {
    if (way == SplitWay::none || way == SplitWay::automatic) return;
    for (const auto& [name, cut] : plan_.cuts)
      if (layer_of(name) == layer) return;
    throw InvalidArgument(
        "slices: {} cannot be split: it is no dense layer, convolution or table "
        "that a step reads",
        layer);
  }

  nn::Block& net_;
  const LossFunction& loss_;
  const std::vector<TensorInfo>& fields_;
  FieldRoles roles_;
  std::vector<nn::NamedParameter> parameters_;
  std::map<std::string, Heads> heads_;
  std::map<std::string, SplitWay> ways_;  // by layer
  std::set<std::string> tied_;
  SlicePlan plan_;
};

}  // namespace

SlicePlan plan_slices(nn::Block& net, const LossFunction& loss,
                      const std::vector<TensorInfo>& fields, const FieldRoles& roles,
                      std::int64_t slices, const std::vector<Split>& splits) {
  if (slices < 1) throw InvalidArgument("slices: {} of them, expected 1 or more", slices);
  if (slices == 1 && !splits.empty())
    throw InvalidArgument("slices: '{}' is for a net in slices: expected 2 or more of them",
                          splits[0].layers);
  if (slices == 1) return {};
  Planner planner(net, loss, fields, roles, slices);
  planner.ask_for(splits);
  SlicePlan plan = planner.run();
  if (plan.cuts.empty())
    throw InvalidArgument("slices: the net has no layer that can be split into {}", slices);
  return plan;
}

SplitWay parse_split_way(const std::string& name) {
  if (name == "columns") return SplitWay::columns;
  if (name == "rows") return SplitWay::rows;
  if (name == "none") return SplitWay::none;
  throw InvalidArgument("slices: '{}' is no way to split a layer: expected columns, rows or none",
                        name);
}

Split parse_split(const std::string& text) {
  const std::size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0)
    throw InvalidArgument(
        "slices: '{}' says nothing of layers: expected LAYER=columns, =rows or "
        "=none",
        text);
  return {text.substr(0, equals), parse_split_way(text.substr(equals + 1))};
}

}  // namespace lockstep::train
