// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/catalogue.h"

#include <unordered_map>

#include "lockstep/ops/families.h"

namespace lockstep {
namespace {

std::vector<OpFamily> collect_families() {
  return {{"Elementwise", families::elementwise()},
          {"Unary", families::unary()},
          {"Mathematical functions", families::math()},
          {"Reductions", families::reduce()},
          {"Products", families::matmul()},
          {"Linear algebra", families::linalg()},
          {"Convolutions", families::conv()},
          {"Pools", families::pool()},
          {"Resampling", families::resample()},
          {"Normalisation", families::norm()},
          {"Dropout", families::dropout()},
          {"Softmax", families::softmax()},
          {"Losses", families::loss()},
          {"Connectionist temporal classification", families::ctc()},
          {"Indexing", families::index()},
          {"Shape", families::shape()},
          {"Parts of matrices", families::matrix_parts()},
          {"Sorting", families::sort()},
          {"Recurrent networks", families::rnn()},
          {"Attention", families::attention()},
          {"Random numbers", families::random()},
          {"Creation", families::create()},
          {"Update rules", families::update()},
          {"Fused chains", families::fused()}};
}

std::vector<const OpDef*> collect() {
  std::vector<const OpDef*> ops;
  for (const OpFamily& family : op_families())
    ops.insert(ops.end(), family.ops.begin(), family.ops.end());
  return ops;
}

std::unordered_map<std::string_view, const OpDef*> by_name() {
  std::unordered_map<std::string_view, const OpDef*> map;
  for (const OpDef* op : all_ops())
    check(map.emplace(op->name, op).second, "two ops have one name");
  return map;
}

}  // namespace

const std::vector<OpFamily>& op_families() {
  static const std::vector<OpFamily> all = collect_families();
  return all;
}

const std::vector<const OpDef*>& all_ops() {
  static const std::vector<const OpDef*> ops = collect();
  return ops;
}

const OpDef* find_op(std::string_view name) {
  static const auto map = by_name();
  const auto found = map.find(name);
  return found == map.end() ? nullptr : found->second;
}

const OpDef& get_op(std::string_view name) {
  const OpDef* op = find_op(name);
  if (op == nullptr) throw NotFound("op: there is no op named '{}'", name);
  return *op;
}

}  // namespace lockstep
