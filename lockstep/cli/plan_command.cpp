// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/plan_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/cli/cluster_options.h"
#include "lockstep/cli/options.h"
#include "lockstep/cli/plan_ranking.h"
#include "lockstep/cli/subject_options.h"
#include "lockstep/cli/train_report.h"
#include "lockstep/recipes/run_files.h"
#include "lockstep/train/choose_cuts.h"
#include "lockstep/train/plan_segments.h"
#include "lockstep/train/show_slices.h"

namespace lockstep::cli {
namespace {

constexpr const char* kPlan = "The plan";
constexpr const char* kMachines = "The machines";

struct PlanOptions : SubjectOptions {
  ClusterOptions cluster;
  bool timeline = false, json = false, show = false;
  std::string svg;
};

// Without a word about it, all workers are one pipeline; without workers, each segment has one.
std::int64_t stages_of(const PlanOptions& options, const recipes::RunConfig& config) {
  MeshOptions mesh = options.mesh;
  const std::int64_t workers =
      options.workers.value_or(mesh.tensor() * mesh.pipeline.value_or(config.segments));
  if (!mesh.pipeline) mesh.pipeline = std::max<std::int64_t>(1, workers / mesh.tensor());
  check_mesh(config, mesh, workers);
  const std::int64_t replicas = workers / mesh.parts();
  if (replicas > config.shards)
    throw WrongUsage(fmt::format("{} pipelines with --shards {}: each computes at least one shard",
                                 replicas, config.shards));
  return mesh.stages();
}

void take_placement(PlanOptions& options) {
  const std::optional<Placement> placement = placement_of(options.mesh);
  if (!placement) return;
  options.workers = placement->workers();
  options.mesh.pipeline = placement->pipeline;
  options.mesh.tensor_workers = placement->tensor;
}

void print_segments(const std::vector<train::PlannedSegment>& segments) {
  fmt::print("{:<8} {:<24} {:>6} {:>12} {:>14} {:>14}\n", "segment", "begins with", "work",
             "parameters", "KB up a shard", "KB down");
  for (std::size_t s = 0; s < segments.size(); ++s)
    fmt::print("{:<8} {:<24} {:>5.1f}% {:>12} {:>14.1f} {:>14.1f}\n", s,
               s == 0 ? "the input" : segments[s].begins_with, 100.0 * segments[s].work,
               segments[s].parameters, static_cast<double>(segments[s].bytes_up) / 1e3,
               static_cast<double>(segments[s].bytes_down) / 1e3);
}

nlohmann::json json_of(const std::vector<train::PlannedSegment>& segments,
                       const parallel::Schedule& schedule, const parallel::Timeline& timeline) {
  nlohmann::json value;
  for (const train::PlannedSegment& segment : segments)
    value["segments"].push_back({{"begins_with", segment.begins_with},
                                 {"work", segment.work},
                                 {"parameters", segment.parameters},
                                 {"bytes_up", segment.bytes_up},
                                 {"bytes_down", segment.bytes_down}});
  for (const auto& stage : schedule.stages)
    value["shards_under_way"].push_back(parallel::most_under_way(stage));
  value["stages"] = schedule.stages.size();
  value["shards"] = schedule.shards;
  value["bubble"] = timeline.bubble();
  return value;
}

// Each layer's split, and what the slices of a shard bring together.
int show_slices(const PlanOptions& options, const recipes::RunConfig& config) {
  const recipes::Recipe recipe = recipes::run_recipe(config, {});
  const nn::BlockPtr net = recipe.net();
  net->initialize();
  const train::PlannedSlices shown =
      train::show_slices(*net, recipe.loss(), recipe.fields(config.global_batch / config.shards),
                         recipe.roles(), recipes::mesh_of(config));
  nlohmann::json value{{"slices", config.slices}};
  fmt::memory_buffer text;
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "{:<32} {:>4}  {}\n", "parameter", "axis", "of each slice");
  for (const train::PlannedSplit& split : shown.splits) {
    fmt::format_to(out, "{:<32} {:>4}  {}\n", split.parameter, split.axis,
                   fmt::join(split.extents, ", "));
    value["splits"].push_back(
        {{"parameter", split.parameter}, {"axis", split.axis}, {"extents", split.extents}});
  }
  fmt::format_to(out, "\n{:<14} {:<32} {:>12}\n", "transfer", "layer", "KB a shard");
  for (const train::PlannedTransfer& transfer : shown.transfers) {
    fmt::format_to(out, "{:<14} {:<32} {:>12.1f}\n", transfer.op,
                   transfer.layer.empty() ? "(backward)" : transfer.layer,
                   static_cast<double>(transfer.bytes) / 1e3);
    value["transfers"].push_back(
        {{"op", transfer.op}, {"layer", transfer.layer}, {"bytes", transfer.bytes}});
  }
  fmt::print("{}", options.json ? value.dump() + "\n" : fmt::to_string(text));
  return 0;
}

// Of one schedule, by the work in floating-point operations: nothing is measured.
int show_timeline(const PlanOptions& options) {
  const recipes::RunConfig config = config_of(options);
  if (options.show) return show_slices(options, config);
  const std::int64_t stages = stages_of(options, config);
  const recipes::Recipe recipe = recipes::run_recipe(config, {});
  const nn::BlockPtr net = recipe.net();
  net->initialize();
  const auto segments =
      train::plan_segments(*net, recipe.loss(), recipe.fields(config.global_batch / config.shards),
                           recipe.roles(), recipes::mesh_of(config));
  const std::int64_t parts = stages * options.mesh.tensor();
  const std::int64_t workers = options.workers.value_or(parts);
  const std::int64_t shards = deal_shards(config.shards, workers / parts)[0].hi;
  const parallel::Schedule schedule = parallel::make_schedule(
      parallel::parse_schedule(options.mesh.schedule), static_cast<int>(stages), shards);
  parallel::verify(schedule);
  std::vector<parallel::StageTimes> times;
  for (const ShardRange& own : deal_shards(std::ssize(segments), stages)) {
    double work = 0.0;
    for (std::int64_t s = own.lo; s < own.hi; ++s)
      work += segments[static_cast<std::size_t>(s)].work;
    times.push_back({work, 2.0 * work});
  }
  times[0].weights_part = 1.0;  // it has no gradients to send
  const parallel::Timeline timeline = parallel::simulate(schedule, times);
  if (!options.svg.empty()) write_file(options.svg, parallel::timeline_svg(timeline));
  if (options.json) {
    fmt::print("{}\n", json_of(segments, schedule, timeline).dump());
    return 0;
  }
  print_segments(segments);
  fmt::print(
      "\n{} stages, {} shards in a pipeline, {}: waits {:.1f}% of the time, by the work in "
      "floating-point operations\n",
      stages, shards, options.mesh.schedule, 100.0 * timeline.bubble());
  for (std::size_t s = 0; s < schedule.stages.size(); ++s)
    fmt::print("stage {} keeps {} shards under way\n", s,
               parallel::most_under_way(schedule.stages[s]));
  if (options.timeline) fmt::print("\n{}", parallel::timeline_text(timeline));
  return 0;
}

// What the command line leaves open is ranked.
int rank_placements(const PlanOptions& options) {
  const recipes::RunConfig config = config_of(options);
  check_tensor(config, options.mesh, *options.workers);
  recipes::PlanRunOptions asked = plan_options(options.cluster, *options.workers);
  asked.threads = static_cast<int>(options.threads);
  if (options.mesh.pipeline) asked.pipeline = static_cast<int>(*options.mesh.pipeline);
  if (options.mesh.tensor_workers) asked.tensor = static_cast<int>(*options.mesh.tensor_workers);
  if (options.mesh.recompute) asked.recompute = true;
  const recipes::RunPlan plan = recipes::plan_run(config, asked);
  const std::string command = train_command(config, *options.workers);
  fmt::print("{}", options.json ? ranking_json(plan, command) + "\n" : ranking_text(plan, command));
  if (plan.plan.best(false) != nullptr) return 0;
  throw InvalidArgument("plan: {}", parallel::refusal_of(plan.plan, plan.request));
}

int plan(const PlanOptions& options) {
  const bool ranks = options.workers && !options.timeline && options.svg.empty();
  return ranks ? rank_placements(options) : show_timeline(options);
}

}  // namespace

void add_plan_command(CLI::App& app, Action& action) {
  const auto options = std::make_shared<PlanOptions>();
  CLI::App* command = app.add_subcommand(
      "plan", "Which worker should have what: placements, ranked; and where a net is cut");
  command->group(kToolGroup);
  add_subject_options(*command, *options, kPlan);
  add_cluster_options(*command, options->cluster, kMachines);
  command->add_flag("--show", options->show, "With --slices: each split and each transfer")
      ->group(kPlan);
  command->add_flag("--timeline", options->timeline, "Show who does what when")->group(kPlan);
  command->add_option("--svg", options->svg, "The timeline as a picture")
      ->type_name("FILE")
      ->group(kPlan);
  command->add_flag("--json", options->json, "One JSON object on standard output")->group(kPlan);
  command->footer(R"(Examples:
  lockstep plan char-gpt --workers 4                         every placement, the fastest first
  lockstep plan gpt-wide --workers 4 --memory-limit 1GB      of those that fit
  lockstep plan char-gpt --workers 8 --hosts 2 --links 1gbit,100us
  lockstep plan char-gpt --segments 4                        where the net is cut
  lockstep plan char-gpt --segments 4 --workers 2 --timeline what two workers do
  lockstep plan char-gpt --segments 2 --shards 16 --svg timeline.svg
  lockstep plan char-gpt --slices 2 --show                   what is split, and what it costs)");
  add(*command, kPlan, "--schedule", options->mesh.schedule, "NAME",
      "The same as --pipeline-schedule")
      ->check(CLI::IsMember(pipeline_schedules()));
  command->callback([&action, options] {
    action = [options] {
      take_placement(*options);
      return plan(*options);
    };
  });
}

}  // namespace lockstep::cli
