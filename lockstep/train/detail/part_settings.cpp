// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/detail/part_settings.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "lockstep/base/sha256.h"

namespace lockstep::train::detail {
namespace {

using Names = std::vector<std::string>;

// Short, and another text for other names.
std::string text_of(const Names& names) {
  if (names.size() <= 4) return fmt::format("{}", fmt::join(names, ", "));
  Sha256 sum;
  for (const std::string& name : names) sum.update(name + "\n");
  return fmt::format("{} parameters from {} to {} ({})", names.size(), names.front(), names.back(),
                     sum.hex().substr(0, 8));
}

using Parameters = std::vector<nn::NamedParameter>;

std::string multipliers_of(const Parameters& parameters) {
  std::map<std::pair<double, double>, Names> groups;
  for (const auto& [name, parameter] : parameters) {
    const nn::ParameterOptions& own = parameter.options();
    if (own.rate_multiplier != 1.0 || own.decay_multiplier != 1.0)
      groups[{own.rate_multiplier, own.decay_multiplier}].push_back(name);
  }
  std::string text = groups.empty() ? "none" : "";
  for (const auto& [factors, names] : groups)
    text += fmt::format("{}rate x {}, decay x {}: {}", text.empty() ? "" : "; ", factors.first,
                        factors.second, text_of(names));
  return text;
}

std::string frozen_of(const Parameters& parameters) {
  Names names;
  for (const auto& [name, parameter] : parameters)
    if (parameter.is_frozen()) names.push_back(name);
  return names.empty() ? "none" : text_of(names);
}

std::string sparse_of(const Parameters& parameters) {
  Names names;
  for (const auto& [name, parameter] : parameters)
    if (parameter.wants_gradient() && parameter.options().sparse_grad) names.push_back(name);
  return names.empty() ? "" : text_of(names);
}

}  // namespace

std::string with_part_settings(const std::string& configuration, const nn::Block& net,
                               const LossFunction& loss) {
  const Parameters parameters = trained_parameters(net, loss);
  nlohmann::json value = nlohmann::json::parse(configuration);
  value["multipliers"] = multipliers_of(parameters);
  value["frozen"] = frozen_of(parameters);
  if (const std::string sparse = sparse_of(parameters); !sparse.empty())
    value["sparse_gradients"] = sparse;
  return value.dump();
}

}  // namespace lockstep::train::detail
