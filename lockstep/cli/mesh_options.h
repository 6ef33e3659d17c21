// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "lockstep/recipes/run_config.h"
#include "lockstep/train/trainer.h"

namespace lockstep::cli {

// How a net is cut, which decides bits, and how the segments are placed, which does not.
struct MeshOptions {
  std::optional<std::int64_t> segments;
  std::optional<std::string> cuts;
  std::optional<std::int64_t> pipeline;
  std::string schedule = "1f1b";
  bool recompute = false;

  std::int64_t stages() const { return pipeline.value_or(1); }
};

void add_mesh_options(CLI::App& command, MeshOptions& options, const char* group);

// Into the configuration. Throws WrongUsage; so does what follows, of the workers of a job.
void apply_mesh_options(recipes::RunConfig& config, const MeshOptions& options);
void check_mesh(const recipes::RunConfig& config, const MeshOptions& options, std::int64_t workers,
                int threads);

// " --pipeline 2 ...": what is not in a run's folder.
std::string mesh_words(const MeshOptions& options);

}  // namespace lockstep::cli
