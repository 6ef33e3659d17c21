// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/parallel/simulator.h"
#include "lockstep/parallel/step_memory.h"

namespace lockstep::parallel {

// A way to cut the net: part of the mesh, so that the bits depend on it.
struct MeshChoice {
  int segments = 1;
  std::vector<std::string> cuts = {};  // one fewer than segments
  bool is_given = true;                // what the configuration has: the bits are its own
  int slices = 1;
  int tensor = 1;  // workers that share them: costs are those of the one that has the most
};

struct PlanRequest {
  std::int64_t shards = 8;
  ClusterModel cluster = {};     // with its workers
  int threads = 1;               // of a worker that has no stage
  std::size_t memory_limit = 0;  // bytes of a worker's step; 0: none
  std::vector<MeshChoice> meshes = {};
  std::size_t floats = 0;  // parameters that learn, of the whole net
  int slots = 0;           // that the rule keeps for each
  std::optional<int> pipeline = {}, tensor = {}, shard_state = {};  // only these
  std::optional<bool> recompute = {};
  comm::Algorithm algorithm = comm::Algorithm::tree;
  EstimateOptions estimate = {};
};

// A placement of a mesh, with what it costs.
struct Candidate {
  Placement placement = {};
  std::size_t mesh = 0;    // place in the request's
  bool keeps_bits = true;  // the mesh is the configuration's
  bool is_measured = true;
  std::size_t bytes = 0;  // of the worker that needs most; at least that where it is not measured
  StepMemory memory = {};
  StepEstimate step = {};
  std::size_t over = 0;  // the memory limit, by so much
  std::string why = {};  // it is not the best

  bool fits() const { return over == 0; }
};

// Those that fit first, by their steps' time; then the others, by what they need.
struct Plan {
  std::vector<Candidate> candidates = {};
  std::vector<StepCosts> costs = {};  // by mesh; of those that were not measured, nothing

  // The best of all, or of those whose mesh is the configuration's; null: none fits.
  const Candidate* best(bool keeps_bits) const;
};

// Every placement of every mesh on so many workers: replicas times stages, stages of state, forward
// passes kept or computed again. `measure` is asked for the costs of a mesh once, and not where
// parameters alone are too much.
using MeasureMesh = std::function<StepCosts(const MeshChoice&)>;
Plan make_plan(const PlanRequest& request, const MeasureMesh& measure);

// "no plan of 4 workers fits in 2.0 GB: the closest, ..., needs 2.3 GB a worker, 0.3 GB too much".
std::string refusal_of(const Plan& plan, const PlanRequest& request);

}  // namespace lockstep::parallel
