// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/mesh_options.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <map>

#include "lockstep/base/error.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/options.h"
#include "lockstep/recipes/plan_run.h"
#include "lockstep/recipes/run_files.h"
#include "lockstep/recipes/run_mode.h"
#include "lockstep/train/choose_cuts.h"
#include "lockstep/train/slice_plan.h"

namespace lockstep::cli {

std::vector<std::string> pipeline_schedules() { return {"1f1b", "zero-bubble", "gpipe"}; }

namespace {

std::int64_t count_in(const std::string& placement, const std::string& text) {
  constexpr std::size_t kMostDigits = 6;
  const bool is_number = !text.empty() && text.size() <= kMostDigits &&
                         text.find_first_not_of("0123456789") == std::string::npos;
  const std::int64_t count = is_number ? std::stoll(text) : 0;
  if (count < 1)
    throw WrongUsage(fmt::format("--placement {}: '{}' is no number of workers, expected 1 or more",
                                 placement, text));
  return count;
}

Placement parse_placement(const std::string& text) {
  Placement placement;
  std::map<std::string, std::int64_t*> axes{
      {"data", &placement.data}, {"pipeline", &placement.pipeline}, {"tensor", &placement.tensor}};
  for (const std::string& word : recipes::names_in(text)) {
    const std::size_t sign = word.find('=');
    const auto axis = axes.find(word.substr(0, sign));
    if (sign == std::string::npos || axis == axes.end())
      throw WrongUsage(
          fmt::format("--placement {}: '{}' is no axis, or was there before; expected "
                      "data=D,pipeline=P,tensor=1",
                      text, word));
    *axis->second = count_in(text, word.substr(sign + 1));
    axes.erase(axis);
  }
  return placement;
}

}  // namespace

std::optional<Placement> placement_of(const MeshOptions& options) {
  if (!options.placement) return {};
  const Placement placement = parse_placement(*options.placement);
  if (options.tensor_workers && *options.tensor_workers != placement.tensor)
    throw WrongUsage(fmt::format("--placement {} with --tensor {}: choose one of them",
                                 *options.placement, *options.tensor_workers));
  if (options.pipeline && *options.pipeline != placement.pipeline)
    throw WrongUsage(fmt::format("--placement {} with --pipeline {}: choose one of them",
                                 *options.placement, *options.pipeline));
  return placement;
}

void add_mesh_options(CLI::App& command, MeshOptions& options, const char* group) {
  CLI::Option* segments =
      add_count(command, group, "--segments", options.segments, "P",
                "Stretches that the net is cut into, of about the same work; they are compiled "
                "apart, so that the bits depend on them",
                1, 1 << 16)
          ->default_str("1");
  add(command, group, "--balance", options.balance, "WHAT",
      "What the segments have about the same of; the cuts that follow are those of the run")
      ->check(CLI::IsMember({"work", "memory"}))
      ->default_str("work");
  add(command, group, "--cuts", options.cuts, "BLOCK,...",
      "The blocks with which segments begin, such as blocks.2, instead")
      ->excludes(segments);
  add_count(command, group, "--pipeline", options.pipeline, "N",
            "Workers that share the segments of a replica; never changes the result", 1, 1 << 16)
      ->default_str("1");
  add(command, group, "--pipeline-schedule", options.schedule, "NAME",
      "The order in which a pipeline computes its shards; never changes the result")
      ->check(CLI::IsMember(pipeline_schedules()))
      ->default_str("1f1b");
  add(command, group, "--placement", options.placement, "data=D,pipeline=P,tensor=T",
      "The job's workers: D replicas of P stages, each of T workers that share its slices; never "
      "changes the result");
  command
      .add_flag("--recompute", options.recompute,
                "Workers of a pipeline, or with --shard-state 3, compute forward passes again "
                "instead of keeping them: less memory, more work")
      ->group(group);
  add_count(command, group, "--slices", options.slices, "K",
            "Parts that layers which can be split are computed as (units, heads, channels, words), "
            "so that the bits depend on them",
            1, 1 << 16)
      ->default_str("1");
  add(command, group, "--slice-layers", options.slice_layers, "LAYER=HOW,...",
      "Layers that are split otherwise: columns, rows or none; * in a name stands for anything");
  add_count(command, group, "--tensor", options.tensor_workers, "N",
            "Workers that share the slices of a stage; never changes the result", 1, 1 << 16)
      ->default_str("1");
}

namespace {

void apply_slices(recipes::RunConfig& config, const MeshOptions& options) {
  if (options.slices) config.slices = *options.slices;
  if (options.slice_layers) config.slice_layers = *options.slice_layers;
  try {
    if (!recipes::splits_in(config.slice_layers).empty() && config.slices == 1)
      throw WrongUsage(fmt::format("--slice-layers {}: expected --slices K too, 2 or more",
                                   config.slice_layers));
  } catch (const InvalidArgument& error) {
    throw WrongUsage(fmt::format("--slice-layers {}: {}", config.slice_layers, error.what()));
  }
}

void check_cells(const recipes::RunConfig& config, const MeshOptions& options,
                 std::int64_t workers) {
  if (workers % options.parts() != 0)
    throw WrongUsage(fmt::format("{} with {} workers: expected a multiple of {}",
                                 shape_words(options), workers, options.parts()));
  const std::int64_t stages = options.stages();
  if (config.segments < stages)
    throw WrongUsage(
        fmt::format("--pipeline {} with {} segment{}: expected --segments {} or more, or --cuts",
                    stages, config.segments, config.segments == 1 ? "" : "s", stages));
  check_tensor(config, options, workers);
}

void check_sums(const recipes::RunConfig& config, const std::string& what) {
  if (recipes::has_servers(config) || !recipes::is_invariant(config))
    throw WrongUsage(
        fmt::format("{}: gradients are added in the canonical order, without servers and "
                    "uncompressed",
                    what));
}

// By name, so that the run's configuration has them.
void cut_by_memory(recipes::RunConfig& config) {
  const recipes::Recipe recipe = recipes::run_recipe(config, {});
  if (recipe.from_data)
    throw WrongUsage(fmt::format(
        "--balance memory: {} takes its shapes from its data; expected --cuts", config.recipe));
  if (config.global_batch % config.shards != 0) return;  // which is said elsewhere
  const nn::BlockPtr net = recipe.net();
  net->initialize();
  const std::vector<std::string> cuts =
      train::choose_cuts(*net, recipe.loss(), recipe.fields(config.global_batch / config.shards),
                         recipe.roles(), config.segments, train::Balance::memory);
  config.cuts = fmt::format("{}", fmt::join(cuts, ","));
}

}  // namespace

void apply_mesh_options(recipes::RunConfig& config, const MeshOptions& options) {
  apply_slices(config, options);
  if (options.segments) {
    config.segments = *options.segments;
    config.cuts = "";
    if (options.balance == "memory" && config.segments > 1) cut_by_memory(config);
  }
  if (!options.segments && options.balance == "memory")
    throw WrongUsage("--balance memory: is for --segments P; expected it too");
  if (!options.cuts) return;
  const std::vector<std::string> names = recipes::names_in(*options.cuts);
  for (const std::string& name : names)
    if (name.empty())
      throw WrongUsage(
          fmt::format("--cuts {}: expected names of blocks with commas between", *options.cuts));
  if (names.empty()) throw WrongUsage("--cuts: expected the name of a block");
  config.cuts = *options.cuts;
  config.segments = static_cast<std::int64_t>(names.size()) + 1;
}

void check_tensor(const recipes::RunConfig& config, const MeshOptions& options,
                  std::int64_t workers) {
  const std::int64_t tensor = options.tensor();
  if (config.slices < tensor)
    throw WrongUsage(fmt::format("--tensor {} with --slices {}: each worker needs a slice", tensor,
                                 config.slices));
  if (workers % tensor != 0)
    throw WrongUsage(fmt::format("--tensor {} with {} workers: expected a multiple of {}", tensor,
                                 workers, tensor));
}

void check_mesh(const recipes::RunConfig& config, const MeshOptions& options, std::int64_t workers,
                bool shares_weights) {
  const std::int64_t stages = options.stages();
  check_cells(config, options, workers);
  if (config.slices > 1) check_sums(config, fmt::format("--slices {}", config.slices));
  if (options.recompute && stages == 1 && !shares_weights)
    throw WrongUsage(
        "--recompute: is for the workers of a pipeline, or with --shard-state 3; expected one of "
        "them too");
  if (stages > 1) check_sums(config, fmt::format("--pipeline {}", stages));
}

std::string shape_words(const MeshOptions& options) {
  std::vector<std::string> words;
  if (options.stages() > 1) words.push_back(fmt::format("--pipeline {}", options.stages()));
  if (options.tensor() > 1) words.push_back(fmt::format("--tensor {}", options.tensor()));
  return fmt::format("{}", fmt::join(words, " "));
}

std::string mesh_words(const MeshOptions& options) {
  std::string line = options.parts() == 1 ? "" : " " + shape_words(options);
  if (options.schedule != MeshOptions().schedule)
    line += " --pipeline-schedule " + options.schedule;
  if (options.recompute) line += " --recompute";
  return line;
}

}  // namespace lockstep::cli
