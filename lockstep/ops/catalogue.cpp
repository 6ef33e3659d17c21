// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/catalogue.h"

#include <unordered_map>

#include "lockstep/ops/families.h"

namespace lockstep {
namespace {

std::vector<const OpDef*> collect() {
  std::vector<const OpDef*> ops;
  for (const families::Family& family :
       {families::elementwise(), families::unary(),  families::reduce(), families::matmul(),
        families::conv(),        families::pool(),   families::norm(),   families::dropout(),
        families::softmax(),     families::loss(),   families::ctc(),    families::index(),
        families::shape(),       families::sort(),   families::rnn(),    families::attention(),
        families::random(),      families::create(), families::update(), families::fused()})
    ops.insert(ops.end(), family.begin(), family.end());
  return ops;
}

std::unordered_map<std::string_view, const OpDef*> by_name() {
  std::unordered_map<std::string_view, const OpDef*> map;
  for (const OpDef* op : all_ops())
    check(map.emplace(op->name, op).second, "two ops have one name");
  return map;
}

}  // namespace

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
