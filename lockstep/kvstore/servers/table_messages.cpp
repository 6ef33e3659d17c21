// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/servers/table_messages.h"

#include "lockstep/optim/optimizers.h"

namespace lockstep::kvstore::wire {

Rule Rule::of(const optim::Optimizer& rule) {
  Rule result{std::string(rule.name()), {}};
  for (const auto& [name, value] : rule.arguments()) result.arguments.push_back({name, value});
  return result;
}

optim::OptimizerPtr Rule::make() const {
  std::map<std::string, double> given;
  for (const Argument& argument : arguments) given[argument.name] = argument.value;
  return optim::make_optimizer(name, given);
}

}  // namespace lockstep::kvstore::wire
