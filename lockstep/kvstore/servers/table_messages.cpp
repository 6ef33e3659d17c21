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

void check_generation(std::uint64_t epoch, std::uint64_t current) {
  if (generation_of(epoch) < generation_of(current))
    throw InvalidArgument("a request of generation {}, the table's is {}", generation_of(epoch),
                          generation_of(current));
}

bool is_same(MakeTable a, MakeTable b) {
  for (MakeTable* one : {&a, &b}) {
    one->epoch = 0;
    one->shards = 0;
    one->goes_on = false;
  }
  return encode(a) == encode(b);
}

FlatLayout layout_of(const MakeTable& request) {
  FlatLayout layout;
  for (const Parameter& parameter : request.parameters)
    layout.add({.number = layout.parameters.size(),
                .count = parameter.count,
                .rate_multiplier = parameter.rate_multiplier,
                .decay_multiplier = parameter.decay_multiplier});
  layout.unused.assign(request.unused.begin(), request.unused.end());
  for (const std::size_t place : layout.unused)
    if (place >= layout.floats) throw InvalidArgument("float {} is not in it", place);
  for (const RowsOf& its : request.tables) {
    constexpr std::uint64_t kMost = std::uint64_t{1} << 40;
    if (its.rows == 0 || its.width == 0 || its.rows > kMost || its.width > kMost / its.rows)
      throw InvalidArgument("{} rows of {} floats", its.rows, its.width);
    layout.tables.push_back({.number = layout.tables.size(),
                             .rows = its.rows,
                             .width = its.width,
                             .rate_multiplier = its.rate_multiplier,
                             .decay_multiplier = its.decay_multiplier});
  }
  return layout;
}

}  // namespace lockstep::kvstore::wire
