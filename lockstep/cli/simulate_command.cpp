// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/simulate_command.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/cli/cluster_options.h"
#include "lockstep/cli/options.h"
#include "lockstep/cli/plan_ranking.h"
#include "lockstep/cli/subject_options.h"
#include "lockstep/recipes/run_files.h"

namespace lockstep::cli {
namespace {

constexpr const char* kStep = "The step";
constexpr const char* kMachines = "The machines";

struct SimulateOptions : SubjectOptions {
  ClusterOptions cluster;
  std::int64_t shard_state = 0, seed = 0, draws = 50;
  double jitter = 3.0;
  bool json = false;
  std::string page;
};

// Without a word about shards, each replica has at least one, of as many samples as the recipe's:
// the batch grows with the workers.
recipes::RunConfig config_for(const SimulateOptions& options, std::int64_t replicas) {
  recipes::RunConfig config = config_of(options);
  if (!options.shards && !options.global_batch && config.shards < replicas) {
    config.global_batch = config.global_batch / config.shards * replicas;
    config.shards = replicas;
  }
  if (replicas > config.shards)
    throw WrongUsage(fmt::format("{} replicas with --shards {}: each computes at least one",
                                 replicas, config.shards));
  return config;
}

struct Simulated {
  recipes::RunConfig config;
  recipes::RunPlan plan;
  const parallel::Candidate& one() const { return plan.plan.candidates[0]; }
  double samples_per_s() const {
    return static_cast<double>(config.global_batch) / one().step.seconds;
  }
};

Simulated simulate(const SimulateOptions& options) {
  const std::int64_t workers = options.workers.value_or(1);
  MeshOptions mesh = options.mesh;
  Simulated simulated{config_for(options, std::max<std::int64_t>(1, workers / mesh.parts())), {}};
  check_mesh(simulated.config, mesh, workers);
  recipes::PlanRunOptions asked = plan_options(options.cluster, workers);
  asked.threads = static_cast<int>(options.threads);
  asked.pipeline = static_cast<int>(mesh.stages());
  asked.tensor = static_cast<int>(mesh.tensor());
  asked.shard_state = static_cast<int>(options.shard_state);
  asked.recompute = options.mesh.recompute;
  asked.may_cut = false;
  asked.estimate = {options.jitter / 100.0, static_cast<int>(options.draws),
                    static_cast<std::uint64_t>(options.seed)};
  simulated.plan = recipes::plan_run(simulated.config, asked);
  if (!simulated.one().fits())
    throw InvalidArgument("simulate: {}",
                          parallel::refusal_of(simulated.plan.plan, simulated.plan.request));
  return simulated;
}

std::string title_of(const Simulated& simulated) {
  const parallel::ClusterModel& cluster = simulated.plan.request.cluster;
  return fmt::format("{} on {} workers, {} hosts: {}", simulated.config.recipe, cluster.workers,
                     cluster.hosts, to_string(simulated.one().placement));
}

void write_page(const Simulated& simulated, const std::string& file) {
  const recipes::RunPlan& plan = simulated.plan;
  const parallel::StepTasks step =
      write_step(plan.plan.costs[simulated.one().mesh], simulated.one().placement,
                 plan.request.shards, plan.request.cluster);
  write_file(file, step_page(title_of(simulated), simulated.one().step,
                             simulate_step(step, plan.request.cluster,
                                           {.slowness = {}, .keeps_spans = true})));
}

std::string json_of(const Simulated& simulated) {
  const parallel::Candidate& one = simulated.one();
  const parallel::ClusterModel& cluster = simulated.plan.request.cluster;
  nlohmann::ordered_json json{{"recipe", simulated.config.recipe},
                              {"workers", cluster.workers},
                              {"hosts", cluster.hosts},
                              {"data", one.placement.data},
                              {"pipeline", one.placement.pipeline},
                              {"tensor", one.placement.tensor},
                              {"threads", one.placement.threads},
                              {"shard_state", one.placement.shard_state},
                              {"segments", simulated.plan.mesh_of(one).segments},
                              {"global_batch", simulated.config.global_batch},
                              {"shards", simulated.config.shards},
                              {"step_s", one.step.seconds},
                              {"step_p10_s", one.step.p10},
                              {"step_p90_s", one.step.p90},
                              {"computing_s", one.step.computing},
                              {"bubble_s", one.step.bubble},
                              {"communication_s", one.step.communication},
                              {"stragglers_s", one.step.stragglers},
                              {"efficiency", one.step.efficiency()},
                              {"bound", one.step.bound()},
                              {"samples_per_s", simulated.samples_per_s()},
                              {"bytes", one.bytes}};
  return json.dump();
}

std::string text_of(const Simulated& simulated) {
  const parallel::StepEstimate& step = simulated.one().step;
  const auto part = [&](const char* name, double seconds) {
    return fmt::format("  {:<14} {:>10.2f} ms {:>6.1f}%\n", name, 1e3 * seconds,
                       100.0 * seconds / step.seconds);
  };
  return fmt::format(
             "{}\na step of {} samples takes {:.2f} ms ({:.2f} to {:.2f}): {:.0f} samples/s\n",
             title_of(simulated), simulated.config.global_batch, 1e3 * step.seconds, 1e3 * step.p10,
             1e3 * step.p90, simulated.samples_per_s()) +
         part("computing", step.computing) + part("bubble", step.bubble) +
         part("communication", step.communication) + part("stragglers", step.stragglers) +
         fmt::format("efficiency {:.1f}%, bound by {}\n", 100.0 * step.efficiency(), step.bound());
}

int run(const SimulateOptions& options) {
  const Simulated simulated = simulate(options);
  if (!options.page.empty()) write_page(simulated, options.page);
  fmt::print("{}", options.json ? json_of(simulated) + "\n" : text_of(simulated));
  return 0;
}

}  // namespace

void add_simulate_command(CLI::App& app, Action& action) {
  const auto options = std::make_shared<SimulateOptions>();
  CLI::App* command =
      app.add_subcommand("simulate", "How long a step would take on machines that are not there");
  command->group(kToolGroup);
  add_subject_options(*command, *options, kStep);
  add_count(*command, kStep, "--shard-state", options->shard_state, "STAGE",
            "What workers have together", 0, 2)
      ->default_str("0");
  add_cluster_options(*command, options->cluster, kMachines);
  add_real(*command, kMachines, "--jitter", options->jitter, "PERCENT",
           "How much a worker's time differs from step to step", real_number(0, 100))
      ->default_str("3");
  add_count(*command, kMachines, "--draws", options->draws, "N", "Steps that are drawn", 1, 10000)
      ->default_str("50");
  add_count(*command, kMachines, "--seed", options->seed, "K", "Of what is drawn", 0);
  command->add_option("--page", options->page, "A page with the timeline")
      ->type_name("FILE.html")
      ->group(kStep);
  command->add_flag("--json", options->json, "One JSON object on standard output")->group(kStep);
  command->footer(R"(Examples:
  lockstep simulate char-gpt --workers 1024 --hosts 128 --links 25gbit,10us
  lockstep simulate char-gpt --segments 4 --pipeline 4 --workers 8 --shards 16 --page step.html

Segments are measured in this process: the machines are taken to be as fast as this one.)");
  command->callback([&action, options] { action = [options] { return run(*options); }; });
}

}  // namespace lockstep::cli
