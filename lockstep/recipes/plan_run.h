// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/parallel/planner.h"
#include "lockstep/recipes/run_config.h"
#include "lockstep/train/mesh.h"

namespace lockstep::recipes {

// Where a run is to be computed, and what is settled already.
struct PlanRunOptions {
  int workers = 1, hosts = 1;
  int threads = 0;                                // of a worker; 0: its share of this machine
  std::optional<parallel::LinkModel> links = {};  // between hosts
  std::size_t memory_limit = 0;                   // of a worker; 0: none
  std::optional<int> pipeline = {}, tensor = {}, shard_state = {};
  std::optional<bool> recompute = {};
  bool may_cut = true;  // a net that the configuration does not cut
  parallel::EstimateOptions estimate = {};
  int rounds = 3;  // of each measurement
};

struct RunPlan {
  parallel::PlanRequest request;
  parallel::Plan plan;

  const parallel::MeshChoice& mesh_of(const parallel::Candidate& candidate) const {
    return request.meshes[candidate.mesh];
  }
};

// "a,b": a list of names; and the mesh that a configuration has.
std::vector<std::string> names_in(const std::string& text);
// "head=none,blocks.*.mlp.fc1=rows". Throws InvalidArgument.
std::vector<train::Split> splits_in(const std::string& text);
train::Mesh mesh_of(const RunConfig& config);

// Throws InvalidArgument where the run's net cannot be cut, or its layers split, as the
// configuration says. It is traced, and has no parameters. Where shapes and classes are those of
// the user's data, nothing is known before they are there.
void check_net(const RunConfig& config);

// Measures the run's net on this machine, and ranks its placements. Throws InvalidArgument where
// there is none.
RunPlan plan_run(const RunConfig& config, const PlanRunOptions& options);

// The words of `lockstep train` that ask for it: " --segments 2 --pipeline 2".
std::string train_words(const RunPlan& plan, const parallel::Candidate& candidate);

}  // namespace lockstep::recipes
