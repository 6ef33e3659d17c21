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
  std::optional<std::int64_t> slices;
  std::optional<std::string> slice_layers;
  std::optional<std::int64_t> tensor_workers;
  std::optional<std::string> placement;
  std::string balance = "work";

  std::int64_t stages() const { return pipeline.value_or(1); }
  std::int64_t tensor() const { return tensor_workers.value_or(1); }
  // Workers that have a replica between them: a stage's slices each.
  std::int64_t parts() const { return stages() * tensor(); }
};

// Workers along each axis of the mesh.
struct Placement {
  std::int64_t data = 1, pipeline = 1, tensor = 1;
  std::int64_t workers() const { return data * pipeline * tensor; }
};
// What --placement says, where it is given. Throws WrongUsage, also where --pipeline says something
// else.
std::optional<Placement> placement_of(const MeshOptions& options);

// Names of the orders of a pipeline's passes, the usual one first.
std::vector<std::string> pipeline_schedules();

void add_mesh_options(CLI::App& command, MeshOptions& options, const char* group);

// Into the configuration. Throws WrongUsage; so does what follows, of the workers of a job.
void apply_mesh_options(recipes::RunConfig& config, const MeshOptions& options);
void check_tensor(const recipes::RunConfig& config, const MeshOptions& options,
                  std::int64_t workers);
void check_mesh(const recipes::RunConfig& config, const MeshOptions& options, std::int64_t workers,
                bool shares_weights = false);

// "--pipeline 2 --tensor 2": of each axis with several workers.
std::string shape_words(const MeshOptions& options);
// " --pipeline 2 ...": what is not in a run's folder.
std::string mesh_words(const MeshOptions& options);

}  // namespace lockstep::cli
