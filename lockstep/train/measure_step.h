// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/data/dataset.h"
#include "lockstep/optim/optimizer.h"
#include "lockstep/parallel/cluster_model.h"
#include "lockstep/parallel/step_costs.h"
#include "lockstep/train/mesh.h"
#include "lockstep/train/step_graph.h"

namespace lockstep::train {

struct MeasureOptions {
  FieldRoles roles = {};
  std::vector<std::string> cuts = {};  // blocks that begin segments
  std::int64_t slices = 1;
  std::vector<Split> splits = {};
  int tensor = 1;  // workers that share the slices: the first is measured, which has the most
  std::int64_t shards = 8;  // of a step
  bool bfloat16 = false;
  int rounds = 3;  // of each segment, of which the fastest counts; 0: bytes alone
};

// What a step on shards like `batch` costs this machine, segment by segment: each is compiled, run
// and let go again, so that no more is in memory at a time than its worker would have. The net is
// initialised and does not change.
parallel::StepCosts measure_step(const nn::BlockPtr& net, const LossFunction& loss,
                                 const optim::OptimizerPtr& rule, const data::Fields& batch,
                                 const MeasureOptions& options);

// Parameters that learn, as numbers, and the rule's: known without compiling.
std::size_t count_floats(const StepGraph& step);

// This machine's own: how fast gradients are added and bytes go to another worker through memory,
// and to the network.
parallel::ClusterModel measure_machine();

}  // namespace lockstep::train
