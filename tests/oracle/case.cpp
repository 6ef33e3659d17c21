// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/case.h"

#include "lockstep/nn/loss.h"
#include "lockstep/ops/catalogue.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/einsum.h"
#include "lockstep/ops/norm.h"
#include "lockstep/ops/pool.h"
#include "lockstep/ops/reduce.h"
#include "lockstep/ops/resample.h"
#include "lockstep/ops/rnn.h"

namespace lockstep::testing {
namespace {

using nlohmann::json;

AttrValue read_attribute(const json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) return value.get<std::string>();
  return value.get<Ints>();
}

// A dtype is written as its name.
Attrs read_attributes(const OpDef& op, const json& values) {
  if (op.schema.make == nullptr) return {};
  std::vector<AttrField> fields;
  for (const auto& [name, value] : values.items()) {
    const bool is_dtype = name == "dtype" && value.is_string();
    fields.push_back({name, is_dtype ? AttrValue(dtype_from_name(value.get<std::string>()))
                                     : read_attribute(value)});
  }
  return op.schema.make(op.name, fields);
}

Tensors run_rnn(const Tensors& inputs, const json& attrs) {
  const RnnOptions options{attrs.at("mode").get<std::string>(), attrs.at("bidirectional")};
  const bool lstm = options.mode == "lstm", lengths = attrs.value("lengths", false);
  std::vector<RnnWeights> weights;
  for (std::size_t i = lstm ? 3 : 2; i + 3 < inputs.size(); i += 4)
    weights.push_back({inputs[i], inputs[i + 1], inputs[i + 2], inputs[i + 3]});
  const RnnResult result = rnn(inputs[0], weights, options, inputs[1], lstm ? inputs[2] : Tensor(),
                               lengths ? inputs.back() : Tensor());
  if (!lstm) return {result.y, result.hidden};
  return {result.y, result.hidden, result.cell};
}

// The mean, as PyTorch gives it.
Tensor run_cross_entropy(const Tensors& inputs, const json& attrs) {
  nn::SoftmaxCrossEntropyOptions options{.smoothing = attrs.at("smoothing")};
  options.class_weights = attrs.at("weights").get<std::vector<double>>();
  if (attrs.contains("ignore")) options.ignore_label = attrs.at("ignore").get<std::int64_t>();
  return mean(nn::SoftmaxCrossEntropyLoss(options)(inputs.at(0), inputs.at(1)));
}

Tensors call(const std::string& name, const Tensors& inputs, const json& attrs) {
  if (name == "einsum") return {einsum(attrs.at("equation").get<std::string>(), inputs)};
  if (name == "rnn") return run_rnn(inputs, attrs);
  if (name == "group_norm")
    return {group_norm(inputs.at(0), inputs.at(1), inputs.at(2), attrs.at("groups").get<int>(),
                       attrs.at("epsilon").get<double>())};
  if (name == "instance_norm")
    return {
        instance_norm(inputs.at(0), inputs.at(1), inputs.at(2), attrs.at("epsilon").get<double>())};
  if (name == "pixel_shuffle") return {pixel_shuffle(inputs.at(0), attrs.at("factor"))};
  if (name == "pixel_unshuffle") return {pixel_unshuffle(inputs.at(0), attrs.at("factor"))};
  if (name == "cross_entropy") return {run_cross_entropy(inputs, attrs)};
  if (name == "kl_div")
    return {mean(nn::KLDivLoss(true, -1, 1.0, attrs.at("log_target"))(inputs.at(0), inputs.at(1)))};
  if (name == "global_avg_pool") return {global_avg_pool(inputs.at(0))};
  if (name == "global_max_pool") return {global_max_pool(inputs.at(0))};
  const OpDef& op = get_op(name);
  return apply(op, inputs, read_attributes(op, attrs));
}

}  // namespace

Case::Case(const json& text)
    : outputs(text.value("outputs", std::vector<std::size_t>())),
      wrt(text.value("wrt", std::vector<std::size_t>())),
      head(text.value("head", -1)) {
  for (const json& input : text.at("inputs"))
    infos.push_back({Shape(input.at("shape").get<std::vector<std::int64_t>>()),
                     dtype_from_name(input.at("dtype").get<std::string>()),
                     {}});
  for (const json& node : text.at("nodes"))
    nodes.push_back({node.at("op"), node.value("attrs", json::object()), node.at("in")});
}

std::vector<Tensors> Case::results(const Tensors& inputs) const {
  Tensors values = inputs;
  std::vector<Tensors> all;
  for (const Node& node : nodes) {
    Tensors arguments;
    for (std::size_t id : node.in) arguments.push_back(values.at(id));
    all.push_back(call(node.op, arguments, node.attrs));
    values.insert(values.end(), all.back().begin(), all.back().end());
  }
  return all;
}

Tensors Case::operator()(const Tensors& inputs) const {
  Tensors values = inputs;
  for (const Tensors& made : results(inputs)) values.insert(values.end(), made.begin(), made.end());
  Tensors picked;
  for (std::size_t id : outputs) picked.push_back(values.at(id));
  if (head >= 0) picked.push_back(values.at(static_cast<std::size_t>(head)));
  return picked;
}

}  // namespace lockstep::testing
