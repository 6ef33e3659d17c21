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

std::string multipliers_of(const nn::Block& net) {
  std::map<std::pair<double, double>, Names> groups;
  for (const auto& [name, parameter] : net.parameters()) {
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

std::string frozen_of(const nn::Block& net) {
  Names names;
  for (const auto& [name, parameter] : net.parameters())
    if (parameter.is_frozen()) names.push_back(name);
  return names.empty() ? "none" : text_of(names);
}

}  // namespace

std::string with_part_settings(const std::string& configuration, const nn::Block& net) {
  nlohmann::json value = nlohmann::json::parse(configuration);
  value["multipliers"] = multipliers_of(net);
  value["frozen"] = frozen_of(net);
  return value.dump();
}

}  // namespace lockstep::train::detail
