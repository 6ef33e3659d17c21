// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "lockstep/kvstore/stage_links.h"
#include "lockstep/train/detail/weight_units.h"

namespace lockstep::train::detail {

// The net's parameters where workers may have a part of them alone. One at a time comes here, so
// that no worker needs room for all; where others have it, every worker makes the same calls.
class AllParameters {
 public:
  // Of a worker that has all of them; of a stage (`links`); of one of those that share the weights
  // (`units`). What is given outlives it.
  AllParameters(const StepProgram& program, kvstore::StageLinks* links, WeightUnits* units);

  // By its number, in plain layout, on the host.
  Tensor get(std::size_t number, kvstore::Synchronizer* synchronizer);
  NamedTensors all(kvstore::Synchronizer* synchronizer);
  // As io::tensors_sha256 has it.
  std::string sha256(kvstore::Synchronizer* synchronizer);
  // What the rule keeps, of all stages: `own` has this one's, "slot0/fc1.weight".
  NamedTensors all_slots(NamedTensors own, std::size_t slots, bool keep);

 private:
  void find_owners();
  Tensor from_owner(std::size_t number, Tensor own);

  const StepProgram& program_;
  kvstore::StageLinks* links_;
  WeightUnits* units_;
  std::vector<int> owners_;  // by parameter: the stage that has it
};

std::string slot_prefix(std::size_t number);

}  // namespace lockstep::train::detail
