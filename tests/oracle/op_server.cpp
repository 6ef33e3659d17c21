// SPDX-License-Identifier: Apache-2.0
//
// Runs ops for a test in another language. One JSON object a line on standard input:
//   {"op": "conv", "attrs": {"groups": 2}, "inputs": [{"dtype", "shape", "data"}, ...],
//    "output_grads": [null | {...}, ...]}
// and one a line back: {"outputs": [...], "gradients": [null | {...}, ...]}, or {"error": "..."}.
// {"list": true} is answered with every op's name and default attributes. Functions that are
// composed of ops can be asked for by name, too; "rnn" takes x, hidden, cell for an lstm, then four
// weights for each layer and direction.
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "lockstep/autograd/autograd.h"
#include "lockstep/ops/catalogue.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/norm.h"
#include "lockstep/ops/pool.h"
#include "lockstep/ops/rnn.h"

namespace lockstep {
namespace {

using nlohmann::json;

Tensor read_tensor(const json& value) {
  const Shape shape(value.at("shape").get<std::vector<std::int64_t>>());
  const Tensor exact = Tensor::from(value.at("data").get<std::vector<double>>(), shape);
  const Tensor result = Tensor::empty(shape, dtype_from_name(value.at("dtype").get<std::string>()));
  result.assign(exact);
  return result;
}

json write_tensor(const Tensor& tensor) {
  if (!tensor.defined()) return nullptr;
  return {{"dtype", name_of(tensor.dtype())},
          {"shape", tensor.shape().vector()},
          {"data", tensor.to_vector<double>()}};
}

AttrValue read_attribute(const json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) return value.get<std::string>();
  return value.get<Ints>();
}

Attrs read_attributes(const OpDef& op, const json& values) {
  if (op.schema.make == nullptr) return {};
  std::vector<AttrField> fields;
  for (const auto& [name, value] : values.items()) fields.push_back({name, read_attribute(value)});
  return op.schema.make(op.name, fields);
}

json write_tensors(const std::vector<Tensor>& tensors) {
  json list = json::array();
  for (const Tensor& tensor : tensors) list.push_back(write_tensor(tensor));
  return list;
}

std::vector<Tensor> run_rnn(const std::vector<Tensor>& inputs, const json& attrs) {
  const RnnOptions options{attrs.at("mode").get<std::string>(), attrs.at("bidirectional")};
  const bool lstm = options.mode == "lstm";
  std::vector<RnnWeights> weights;
  for (std::size_t i = lstm ? 3 : 2; i + 3 < inputs.size(); i += 4)
    weights.push_back({inputs[i], inputs[i + 1], inputs[i + 2], inputs[i + 3]});
  const RnnResult result = rnn(inputs[0], weights, options, inputs[1], lstm ? inputs[2] : Tensor());
  if (!lstm) return {result.y, result.hidden};
  return {result.y, result.hidden, result.cell};
}

std::vector<Tensor> call(const std::string& name, const std::vector<Tensor>& inputs,
                         const json& attrs) {
  if (name == "rnn") return run_rnn(inputs, attrs);
  if (name == "group_norm")
    return {group_norm(inputs.at(0), inputs.at(1), inputs.at(2), attrs.at("groups").get<int>(),
                       attrs.at("epsilon").get<double>())};
  if (name == "instance_norm")
    return {
        instance_norm(inputs.at(0), inputs.at(1), inputs.at(2), attrs.at("epsilon").get<double>())};
  if (name == "global_avg_pool") return {global_avg_pool(inputs.at(0))};
  if (name == "global_max_pool") return {global_max_pool(inputs.at(0))};
  const OpDef& op = get_op(name);
  return apply(op, inputs, read_attributes(op, attrs));
}

json run(const json& request) {
  std::vector<Tensor> inputs;
  for (const json& input : request.at("inputs")) {
    inputs.push_back(read_tensor(input));
    if (is_floating(inputs.back().dtype())) autograd::attach_grad(inputs.back());
  }
  std::vector<Tensor> outputs;
  {
    autograd::RecordScope record;
    outputs =
        call(request.at("op").get<std::string>(), inputs, request.value("attrs", json::object()));
  }
  json answer{{"outputs", write_tensors(outputs)}};
  std::vector<Tensor> heads;
  std::vector<Tensor> grads;
  const json given = request.value("output_grads", json::array());
  for (std::size_t i = 0; i < given.size() && i < outputs.size(); ++i) {
    if (given[i].is_null() || !autograd::requires_grad(outputs[i])) continue;
    heads.push_back(outputs[i]);
    grads.push_back(read_tensor(given[i]));
  }
  if (!heads.empty()) autograd::backward(heads, grads);
  std::vector<Tensor> gradients;
  for (const Tensor& input : inputs) gradients.push_back(autograd::gradient(input));
  answer["gradients"] = write_tensors(gradients);
  return answer;
}

json list_ops() {
  json list = json::object();
  for (const OpDef* op : all_ops()) {
    json defaults = json::object();
    if (op->schema.defaults != nullptr)
      for (const AttrField& field : op->schema.defaults())
        defaults[field.name] = to_string(field.value);
    list[std::string(op->name)] = defaults;
  }
  return list;
}

json answer(const std::string& line) {
  try {
    const json request = json::parse(line);
    return request.contains("list") ? list_ops() : run(request);
  } catch (const std::exception& error) {
    return {{"error", error.what()}};
  }
}

}  // namespace
}  // namespace lockstep

int main() {
  for (std::string line; std::getline(std::cin, line);)
    std::cout << lockstep::answer(line).dump() << std::endl;
}
