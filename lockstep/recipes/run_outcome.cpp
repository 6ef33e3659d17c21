// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recipes/run_outcome.h"

#include <nlohmann/json.hpp>

#include "lockstep/recipes/run_mode.h"

namespace lockstep::recipes {
namespace {

using Json = nlohmann::ordered_json;

std::string data_name(const RunOutcome& outcome) {
  return outcome.config.data.empty() ? outcome.recipe.dataset : outcome.config.data;
}

Json accuracy_of(const train::Evaluation& evaluation) {
  return evaluation.has_accuracy ? Json(evaluation.accuracy) : Json();
}

// A run that was stopped before its first evaluation has none.
Json loss_of(const train::FitResult& result) {
  return result.history.empty() ? Json() : Json(result.validation.loss);
}

// What workers that are not in step have seen of each other.
Json json_of(const kvstore::PushesSeen& pushes) {
  return {{"count", pushes.applied},
          {"staleness_max", pushes.most_stale},
          {"staleness_mean", pushes.mean_stale()},
          {"steps_ahead_max", pushes.most_ahead}};
}

// Of the first worker, but for the slowest.
Json json_of(const train::RunCost& cost) {
  return {{"steps", cost.steps},
          {"compute_s", cost.compute_s},
          {"wait_s", cost.wait_s},
          {"bytes_sent", cost.bytes_sent},
          {"slowest_rank", cost.slowest_rank},
          {"slowest_steps", cost.slowest_steps}};
}

// Why a generation began: what happened to a worker in the one before it.
const cluster::MembershipEvent* cause_of(const train::FitResult& result, std::int64_t generation) {
  const cluster::MembershipEvent* cause = nullptr;
  for (const cluster::MembershipEvent& event : result.events) {
    if (event.kind == "generation" && event.generation == generation) return cause;
    if (event.kind == "generation") cause = nullptr;
    if (event.member >= 0 && cause == nullptr) cause = &event;
  }
  return nullptr;
}

Json recoveries_of(const train::FitResult& result) {
  Json list = Json::array();
  for (const train::Recovery& one : result.recoveries) {
    const cluster::MembershipEvent* cause = cause_of(result, one.generation);
    list.push_back({{"kind", cause == nullptr ? "changed" : cause->kind},
                    {"member", cause == nullptr ? -1 : cause->member},
                    {"generation", one.generation},
                    {"step", one.step},
                    {"workers", one.workers},
                    {"seconds", one.seconds}});
  }
  return list;
}

}  // namespace

std::string outcome_json(const RunOutcome& outcome) {
  const RunConfig& config = outcome.config;
  const train::FitResult& result = outcome.result;
  Json json{{"recipe", config.recipe},
            {"workers", outcome.workers},
            {"threads", outcome.threads},
            {"shards", config.shards},
            {"global_batch", config.global_batch},
            {"steps", result.steps},
            {"epochs", result.epochs},
            {"seconds", result.seconds},
            {"samples_per_s", result.samples_per_s},
            {"train_loss", result.train_loss},
            {"train_accuracy", result.has_accuracy ? Json(result.train_accuracy) : Json()},
            {"test_loss", loss_of(result)},
            {"test_accuracy", accuracy_of(result.validation)},
            {"params_sha256", result.params_sha256},
            {"invariant", result.same_bits && result.same_isa && is_invariant(config)},
            {"isa", result.isa},
            {"kvstore", kvstore_of(config, outcome.workers)},
            {"servers", config.servers},
            {"replicas", config.replicas},
            {"staleness", config.staleness},
            {"stale_gradients", config.stale_gradients},
            {"algorithm", config.algorithm},
            {"compression", config.compression},
            {"shard_state", outcome.shard_state},
            {"segments", config.segments},
            {"slices", config.slices},
            {"seed", config.seed},
            {"dtype", config.dtype},
            {"data", data_name(outcome)},
            {"run", outcome.run},
            {"stopped", result.stopped},
            {"resumed_from_step", result.resumed_from},
            {"step_bytes", result.step_bytes},
            {"peak_memory_mb", outcome.peak_memory_mb},
            {"peak_memory_mb_by_worker", result.peak_memory_mb_by_worker},
            {"placement",
             {{"data", outcome.workers / (outcome.stages * outcome.tensor)},
              {"pipeline", outcome.stages},
              {"tensor", outcome.tensor}}},
            {"bubble", result.bubble ? Json(*result.bubble) : Json()}};
  if (result.cost) json["exchange"] = json_of(*result.cost);
  if (result.generation > 0) {
    json["generation"] = result.generation;
    json["recoveries"] = recoveries_of(result);
    json["steps_lost"] = result.steps_lost;
  }
  if (result.deal.size() > 1) {
    json["deal"] = result.deal;
    json["deals"] = result.deals;
  }
  if (result.pushes) json["pushes"] = json_of(*result.pushes);
  for (const auto& [name, value] : result.validation.metrics) json["test_" + name] = value;
  return json.dump();
}

}  // namespace lockstep::recipes
