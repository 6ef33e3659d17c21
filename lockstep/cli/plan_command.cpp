// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/plan_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "lockstep/base/file.h"
#include "lockstep/cli/mesh_options.h"
#include "lockstep/cli/options.h"
#include "lockstep/recipes/model_recipes.h"
#include "lockstep/train/choose_cuts.h"
#include "lockstep/train/plan_segments.h"
#include "lockstep/train/show_slices.h"

namespace lockstep::cli {
namespace {

struct PlanOptions {
  std::string recipe;
  MeshOptions mesh;
  std::optional<std::int64_t> workers, global_batch, shards;
  bool timeline = false, json = false, show = false;
  std::string svg;
};

recipes::RunConfig config_of(const PlanOptions& options) {
  recipes::RunConfig config = recipes::default_config(recipes::find_recipe(options.recipe));
  if (options.global_batch) config.global_batch = *options.global_batch;
  if (options.shards) config.shards = *options.shards;
  if (config.global_batch % config.shards != 0)
    throw WrongUsage(
        fmt::format("--global-batch {} with --shards {}: the shards must divide the batch evenly",
                    config.global_batch, config.shards));
  apply_mesh_options(config, options.mesh);
  return config;
}

// Without a word about it, all workers are one pipeline; without workers, each segment has one.
std::int64_t stages_of(const PlanOptions& options, const recipes::RunConfig& config) {
  const std::int64_t workers =
      options.workers.value_or(options.mesh.pipeline.value_or(config.segments));
  MeshOptions mesh = options.mesh;
  if (!mesh.pipeline) mesh.pipeline = workers;
  check_mesh(config, mesh, workers, 1);
  const std::int64_t replicas = workers / mesh.stages();
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
  const recipes::Recipe& recipe = recipes::find_recipe(options.recipe);
  const nn::BlockPtr net = recipe.net();
  net->initialize();
  const train::PlannedSlices shown =
      train::show_slices(*net, recipe.loss(), recipe.fields(config.global_batch / config.shards),
                         recipe.roles(), mesh_of(config));
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

int plan(const PlanOptions& options) {
  const recipes::RunConfig config = config_of(options);
  if (options.show) return show_slices(options, config);
  const std::int64_t stages = stages_of(options, config);
  const recipes::Recipe& recipe = recipes::find_recipe(options.recipe);
  const nn::BlockPtr net = recipe.net();
  net->initialize();
  const auto segments =
      train::plan_segments(*net, recipe.loss(), recipe.fields(config.global_batch / config.shards),
                           recipe.roles(), mesh_of(config));
  const std::int64_t workers = options.workers.value_or(stages);
  const std::int64_t shards = deal_shards(config.shards, workers / stages)[0].hi;
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

}  // namespace

void add_plan_command(CLI::App& app, Action& action) {
  const auto options = std::make_shared<PlanOptions>();
  CLI::App* command =
      app.add_subcommand("plan", "How a net is cut into segments, and a pipeline's timeline");
  command->group(kToolGroup);
  command->add_option("recipe", options->recipe, "What would be trained")
      ->type_name("RECIPE")
      ->required()
      ->check(CLI::IsMember(recipes::recipe_names()));
  add_mesh_options(*command, options->mesh, "The plan");
  add_count(*command, "The plan", "--workers", options->workers, "N", "Of the job", 1, 1 << 20)
      ->default_str("one for each segment");
  add_count(*command, "The plan", "--global-batch", options->global_batch, "B",
            "Samples of a step");
  add_count(*command, "The plan", "--shards", options->shards, "S",
            "Equal parts of a global batch");
  command->add_flag("--show", options->show, "With --slices: each split and each transfer")
      ->group("The plan");
  command->add_flag("--timeline", options->timeline, "Show who does what when")->group("The plan");
  command->add_option("--svg", options->svg, "The timeline as a picture")
      ->type_name("FILE")
      ->group("The plan");
  command->add_flag("--json", options->json, "One JSON object on standard output")
      ->group("The plan");
  command->footer(R"(Examples:
  lockstep plan char-gpt --segments 4                        where the net is cut
  lockstep plan char-gpt --segments 4 --workers 2 --timeline what two workers do
  lockstep plan char-gpt --segments 2 --shards 16 --svg timeline.svg
  lockstep plan char-gpt --slices 2 --show                   what is split, and what it costs)");
  add(*command, "The plan", "--schedule", options->mesh.schedule, "NAME",
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
