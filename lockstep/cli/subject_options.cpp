// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/subject_options.h"

#include <fmt/core.h>

#include "lockstep/cli/command.h"
#include "lockstep/cli/net_size.h"
#include "lockstep/cli/options.h"

namespace lockstep::cli {

void add_subject_options(CLI::App& command, SubjectOptions& options, const char* group) {
  command.add_option("recipe", options.recipe, "What would be trained")
      ->type_name("RECIPE")
      ->required()
      ->check(CLI::IsMember(recipes::recipe_names()));
  add_mesh_options(command, options.mesh, group);
  add_count(command, group, "--workers", options.workers, "N", "Of the job", 1, 1 << 20);
  add_count(command, group, "--threads", options.threads, "T", "Of a worker", 1, kMostThreads)
      ->default_str("its share of this machine");
  add_count(command, group, "--global-batch", options.global_batch, "B", "Samples of a step");
  add_count(command, group, "--shards", options.shards, "S", "Equal parts of a global batch");
  add_net_size(command, group, options.width, options.blocks);
}

recipes::RunConfig config_of(const SubjectOptions& options) {
  recipes::RunConfig config = recipes::default_config(recipes::find_recipe(options.recipe));
  config.global_batch = options.global_batch.value_or(config.global_batch);
  config.shards = options.shards.value_or(config.shards);
  config.width = options.width.value_or(0);
  config.blocks = options.blocks.value_or(0);
  check_net_size(config);
  if (config.global_batch % config.shards != 0)
    throw WrongUsage(
        fmt::format("--global-batch {} with --shards {}: the shards must divide the batch evenly",
                    config.global_batch, config.shards));
  apply_mesh_options(config, options.mesh);
  return config;
}

}  // namespace lockstep::cli
