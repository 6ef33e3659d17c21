// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/mesh_options.h"

#include <fmt/core.h>

#include "lockstep/base/error.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/options.h"
#include "lockstep/recipes/plan_run.h"
#include "lockstep/recipes/run_mode.h"

namespace lockstep::cli {

void add_mesh_options(CLI::App& command, MeshOptions& options, const char* group) {
  CLI::Option* segments =
      add_count(command, group, "--segments", options.segments, "P",
                "Stretches that the net is cut into, of about the same work; they are compiled "
                "apart, so that the bits depend on them",
                1, 1 << 16)
          ->default_str("1");
  add(command, group, "--cuts", options.cuts, "BLOCK,...",
      "The blocks with which segments begin, such as blocks.2, instead")
      ->excludes(segments);
  add_count(command, group, "--pipeline", options.pipeline, "N",
            "Workers that share the segments of a replica; never changes the result", 1, 1 << 16)
      ->default_str("1");
  add(command, group, "--pipeline-schedule", options.schedule, "NAME",
      "The order in which a pipeline computes its shards; never changes the result")
      ->check(CLI::IsMember({"1f1b", "gpipe"}))
      ->default_str("1f1b");
  command
      .add_flag("--recompute", options.recompute,
                "A pipeline's workers compute forward passes again instead of keeping them: less "
                "memory, more work")
      ->group(group);
}

void apply_mesh_options(recipes::RunConfig& config, const MeshOptions& options) {
  if (options.segments) {
    config.segments = *options.segments;
    config.cuts = "";
  }
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

void check_mesh(const recipes::RunConfig& config, const MeshOptions& options, std::int64_t workers,
                int threads) {
  const std::int64_t stages = options.stages();
  if (options.recompute && stages == 1)
    throw WrongUsage("--recompute: is for the workers of a pipeline; expected --pipeline N too");
  if (stages == 1) return;
  if (workers % stages != 0)
    throw WrongUsage(fmt::format("--pipeline {} with {} workers: expected a multiple of {}", stages,
                                 workers, stages));
  if (config.segments < stages)
    throw WrongUsage(
        fmt::format("--pipeline {} with {} segment{}: expected --segments {} or more, or --cuts",
                    stages, config.segments, config.segments == 1 ? "" : "s", stages));
  if (threads > 1)
    throw WrongUsage(
        fmt::format("--pipeline {} with --threads {}: a pipeline's worker computes with 1 thread",
                    stages, threads));
  if (recipes::has_servers(config) || !recipes::is_invariant(config))
    throw WrongUsage(
        fmt::format("--pipeline {}: gradients are added in the canonical order, without servers "
                    "and uncompressed",
                    stages));
}

std::string mesh_words(const MeshOptions& options) {
  std::string line;
  if (options.stages() > 1) line += fmt::format(" --pipeline {}", options.stages());
  if (options.schedule != MeshOptions().schedule)
    line += " --pipeline-schedule " + options.schedule;
  if (options.recompute) line += " --recompute";
  return line;
}

}  // namespace lockstep::cli
