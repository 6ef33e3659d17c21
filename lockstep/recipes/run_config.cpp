// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recipes/run_config.h"

#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/processor.h"
#include "lockstep/base/version.h"

namespace lockstep::recipes {
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
  visit("max_pixels", config.max_pixels);
  visit("max_inflated", config.max_inflated);
  visit("eval_every", config.eval_every);
  visit("dropout", config.dropout);
  visit("image_size", config.image_size);
  visit("image", config.image);
  visit("split", config.split);
  visit("kvstore", config.kvstore);
  visit("servers", config.servers);
  visit("replicas", config.replicas);
  visit("staleness", config.staleness);
  visit("stale_gradients", config.stale_gradients);
  visit("algorithm", config.algorithm);
  visit("compression", config.compression);
  visit("segments", config.segments);
  visit("cuts", config.cuts);
  visit("width", config.width);
  visit("blocks", config.blocks);
  visit("slices", config.slices);
  visit("slice_layers", config.slice_layers);
  visit("isa", config.isa);
  visit_learning(config.learning, visit);
}

// Keys that runs did not have at first, and what every run did then.
Json first_defaults() {
  return {{"dropout", 0.0},
          {"image_size", 0},
          {"image", ""},
          {"split", "pairs"},
          {"kvstore", ""},
          {"servers", 0},
          {"replicas", 1},
          {"staleness", 0},
          {"stale_gradients", ""},
          {"algorithm", "tree"},
          {"compression", "none"},
          {"segments", 1},
          {"cuts", ""},
          {"width", 0},
          {"blocks", 0},
          {"slices", 1},
          {"slice_layers", ""},
          {"max_pixels", RunConfig().max_pixels},
          {"max_inflated", RunConfig().max_inflated},
          {"isa", ""}};
}

template <class T>
void take(const Json& json, const char* key, T& value, const std::string& name) {
  const Json defaults = first_defaults();
  const Json& from = json.contains(key) ? json : defaults;
  if (!from.contains(key)) throw Corrupt("{}: is not a run's configuration: no '{}'", name, key);
  try {
    from.at(key).get_to(value);
  } catch (const nlohmann::json::exception&) {
    throw Corrupt("{}: is not a run's configuration: '{}' is {}", name, key, from.at(key).dump());
  }
}

void check_isa(const std::string& isa, const std::string& name) try {
  if (!isa.empty()) parse_instruction_set(isa);
} catch (const InvalidArgument&) {
  throw Corrupt("{}: is not a run's configuration: 'isa' is \"{}\"", name, isa);
}

}  // namespace

RunConfig default_config(const Recipe& recipe) {
  return {.version = version(),
          .recipe = recipe.name,
          .data = recipe.dataset == "synthetic" ? "synthetic" : "",
          .epochs = recipe.epochs,
          .global_batch = recipe.global_batch,
          .shards = recipe.shards,
          .dropout = recipe.dropout,
          .learning = recipe.learning};
}

std::string to_json(const RunConfig& config) {
  Json json;
  visit_config(config, [&](const char* key, const auto& value) { json[key] = value; });
  return json.dump(2) + "\n";
}

std::string older_defaults() { return first_defaults().dump(); }

RunConfig config_from_json(const std::string& text, const std::string& name) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object())
    throw Corrupt("{}: is not a run's configuration: expected a JSON object", name);
  RunConfig config;
  visit_config(config, [&](const char* key, auto& value) { take(json, key, value, name); });
  check_isa(config.isa, name);
  if (config.global_batch < 1 || config.shards < 1 || config.epochs < 0 || config.steps < 0 ||
      config.segments < 1 || config.width < 0 || config.blocks < 0 || config.slices < 1)
    throw Corrupt("{}: is not a run's configuration: {} epochs, {} steps, {} shards of {} samples",
                  name, config.epochs, config.steps, config.shards, config.global_batch);
  return config;
}

}  // namespace lockstep::recipes
