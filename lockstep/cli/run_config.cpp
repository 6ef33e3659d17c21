// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/run_config.h"

#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"

namespace lockstep::cli {
namespace {

using Json = nlohmann::ordered_json;

// Each field once, for both directions.
template <class L, class Visit>
void visit_learning(L& learning, const Visit& visit) {
  visit("optimizer", learning.optimizer);
  visit("learning_rate", learning.learning_rate);
  visit("optimizer_options", learning.parameters);
  visit("schedule", learning.schedule);
  visit("warm_up", learning.warm_up);
}

template <class C, class Visit>
void visit_config(C& config, const Visit& visit) {
  visit("version", config.version);
  visit("recipe", config.recipe);
  visit("data", config.data);
  visit("epochs", config.epochs);
  visit("steps", config.steps);
  visit("global_batch", config.global_batch);
  visit("shards", config.shards);
  visit("seed", config.seed);
  visit("dtype", config.dtype);
  visit("skip_bad", config.skip_bad);
  visit("eval_every", config.eval_every);
  visit("dropout", config.dropout);
  visit("kvstore", config.kvstore);
  visit("algorithm", config.algorithm);
  visit("compression", config.compression);
  visit_learning(config.learning, visit);
}

}  // namespace

std::string to_json(const RunConfig& config) {
  Json json;
  visit_config(config, [&](const char* key, const auto& value) { json[key] = value; });
  return json.dump(2) + "\n";
}

RunConfig config_from_json(const std::string& text, const std::string& name) {
  RunConfig config;
  try {
    const Json json = Json::parse(text);
    visit_config(config, [&](const char* key, auto& value) { json.at(key).get_to(value); });
  } catch (const nlohmann::json::exception&) {
    throw Corrupt("{}: is not a run's configuration", name);
  }
  if (config.global_batch < 1 || config.shards < 1 || config.epochs < 0 || config.steps < 0)
    throw Corrupt("{}: is not a run's configuration: {} epochs, {} steps, {} shards of {} samples",
                  name, config.epochs, config.steps, config.shards, config.global_batch);
  return config;
}

}  // namespace lockstep::cli
