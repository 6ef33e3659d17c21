// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/train_plan.h"

#include <fmt/core.h>

#include "lockstep/base/error.h"
#include "lockstep/cli/cluster_options.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/plan_ranking.h"
#include "lockstep/cli/train_run.h"
#include "lockstep/cluster/doctor/host_facts.h"
#include "lockstep/recipes/run_mode.h"

namespace lockstep::cli {
namespace {

// Of this machine's memory, what is left for steps beside the programs themselves.
constexpr double kForSteps = 0.8;

std::size_t memory_limit(const TrainOptions& options) {
  if (!options.memory_limit.empty()) return parse_bytes("--memory-limit", options.memory_limit);
  const auto free = static_cast<double>(cluster::look_at_host().memory_free);
  return static_cast<std::size_t>(kForSteps * free / static_cast<double>(options.worker_count()));
}

void check_plan(const TrainOptions& options, const recipes::RunConfig& config) {
  if (recipes::has_servers(config) || !recipes::is_invariant(config))
    throw WrongUsage(fmt::format(
        "--plan {}: is for workers that add gradients in the canonical order, without servers and "
        "uncompressed",
        *options.plan));
  if (options.deal.kind != Deal::Kind::even)
    throw WrongUsage(fmt::format("--plan {} with --deal {}: a plan deals evenly", *options.plan,
                                 options.deal.str()));
}

recipes::PlanRunOptions asked_of(const TrainOptions& options) {
  recipes::PlanRunOptions asked;
  asked.workers = static_cast<int>(options.worker_count());
  asked.threads = options.threads;
  asked.memory_limit = memory_limit(options);
  if (options.mesh.pipeline) asked.pipeline = static_cast<int>(*options.mesh.pipeline);
  if (options.mesh.tensor_workers) asked.tensor = static_cast<int>(*options.mesh.tensor_workers);
  if (options.mesh.recompute) asked.recompute = true;
  if (options.shard_state > 0) asked.shard_state = static_cast<int>(options.shard_state);
  if (!options.min_workers && !options.max_workers) return asked;
  asked.pipeline = asked.tensor = 1;  // their number can change where each has everything
  asked.shard_state = 0;
  return asked;
}

// What the command line says already is not said again.
void do_as_planned(TrainOptions& options, const recipes::RunPlan& plan,
                   const parallel::Candidate& chosen) {
  const auto choose = [&](const char* name, const auto& before, std::int64_t value) {
    if (before == value) return;
    options.planned_words.insert(options.planned_words.end(), {name, std::to_string(value)});
  };
  const parallel::Placement& placement = chosen.placement;
  options.planned_words = {kPlanned};
  if (!chosen.keeps_bits) {
    choose("--segments", options.mesh.segments, plan.mesh_of(chosen).segments);
    options.mesh.segments = plan.mesh_of(chosen).segments;
  }
  choose("--pipeline", options.mesh.stages(), placement.pipeline);
  choose("--tensor", options.mesh.tensor(), placement.tensor);
  choose("--shard-state", options.shard_state, placement.shard_state);
  if (placement.recompute && !options.mesh.recompute)
    options.planned_words.emplace_back("--recompute");
  options.mesh.pipeline = placement.pipeline;
  options.mesh.tensor_workers = placement.tensor;
  options.mesh.recompute = placement.recompute;
  options.shard_state = placement.shard_state;
}

}  // namespace

void take_plan(TrainOptions& options, const recipes::RunConfig& config) {
  check_plan(options, config);
  recipes::PlanRunOptions asked = asked_of(options);
  asked.may_cut = !options.resume;
  const recipes::RunPlan plan = recipes::plan_run(config, asked);
  const parallel::Candidate* chosen = plan.plan.best(*options.plan == "auto");
  if (chosen == nullptr) chosen = plan.plan.best(false);
  if (chosen == nullptr)
    throw InvalidArgument("--plan {}: {}", *options.plan,
                          parallel::refusal_of(plan.plan, plan.request));
  do_as_planned(options, plan, *chosen);
  say(options, fmt::format("plan: {}{}", candidate_text(*chosen),
                           chosen->keeps_bits ? ""
                                              : fmt::format("; the result is that of --segments {}",
                                                            plan.mesh_of(*chosen).segments)));
}

}  // namespace lockstep::cli
