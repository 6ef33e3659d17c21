// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/observe/report.h"
#include "lockstep/observe/run_folder.h"

namespace lockstep::observe {
namespace {

using Json = nlohmann::json;
using FlatConfig = std::map<std::string, std::string>;

constexpr const char* kNothing = "nothing";
constexpr int kDeepest = 16;

void flatten(const Json& json, const std::string& prefix, int depth, FlatConfig& to) {
  for (const auto& [name, value] : json.items()) {
    const std::string key = prefix + name;
    if (value.is_object() && !value.empty() && depth < kDeepest)
      flatten(value, key + ".", depth + 1, to);
    else
      to[key] = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
}

FlatConfig parse(std::string_view text, const std::string& name) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) throw Corrupt("{}: not a JSON object", name);
  FlatConfig flat;
  flatten(json, "", 0, flat);
  return flat;
}

std::vector<ConfigDifference> differences(const FlatConfig& before, const FlatConfig& now) {
  std::vector<ConfigDifference> found;
  const auto look_up = [](const FlatConfig& config, const std::string& key) {
    const auto at = config.find(key);
    return at == config.end() ? std::string(kNothing) : at->second;
  };
  for (const auto& [key, value] : before)
    if (look_up(now, key) != value) found.push_back({key, value, look_up(now, key)});
  for (const auto& [key, value] : now)
    if (before.find(key) == before.end()) found.push_back({key, kNothing, value});
  std::ranges::sort(found, {}, &ConfigDifference::key);
  return found;
}

bool is_ignored(const std::string& key, std::span<const std::string> ignored) {
  return std::ranges::any_of(
      ignored, [&](const std::string& name) { return key == name || key.starts_with(name + "."); });
}

std::vector<ConfigDifference> compare(std::string_view before, std::string_view now,
                                      std::span<const std::string> ignored,
                                      std::string_view defaults, const std::string& name) {
  FlatConfig then = parse(before, name);
  then.merge(parse(defaults, "the defaults"));
  auto found = differences(then, parse(now, "the new configuration"));
  std::erase_if(found, [&](const ConfigDifference& d) { return is_ignored(d.key, ignored); });
  return found;
}

std::string without_quotes(const std::string& value) {
  const bool quoted = value.size() >= 2 && value.front() == '"';
  return quoted ? Json::parse(value).get<std::string>() : value;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> config_rows(std::string_view json) {
  std::vector<std::pair<std::string, std::string>> rows;
  for (const auto& [key, value] : parse(json, "config.json"))
    rows.emplace_back(key, without_quotes(value));
  return rows;
}

std::vector<ConfigDifference> compare_configs(std::string_view before, std::string_view now,
                                              std::span<const std::string> ignored,
                                              std::string_view defaults) {
  return compare(before, now, ignored, defaults, "config.json");
}

void check_same_config(const RunFolder& run, std::string_view now,
                       std::span<const std::string> ignored, std::string_view defaults) {
  const auto found = compare(run.read_config(), now, ignored, defaults, run.config_path());
  if (found.empty()) return;
  std::string list;
  for (const ConfigDifference& d : found)
    list += fmt::format("{}{} was {}, now {}", list.empty() ? "" : "; ", d.key, d.before, d.now);
  throw InvalidArgument(
      "run: '{}' was started with another configuration: {}; use the old values, or another --out",
      run.path(), list);
}

}  // namespace lockstep::observe
