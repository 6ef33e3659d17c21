// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "lockstep/kvstore/mesh_links.h"
#include "lockstep/train/detail/weight_units.h"

namespace lockstep::train::detail {

// The net's parameters where workers may have a part of them alone: segments, slices, or pieces.
// One at a time comes here, whole, so that no worker needs room for all; where others have it,
// every worker makes the same calls.
class AllParameters {
 public:
  // Of a worker that has all of them; of one that has a cell of a mesh (`links`); of one of those
  // that share the weights (`units`). What is given outlives it.
  AllParameters(const StepProgram& program, kvstore::MeshLinks* links, WeightUnits* units);

  // By its place in the step's list, the first one of what is cut; in plain layout, on the host.
  Tensor get(std::size_t number, kvstore::Synchronizer* synchronizer);
  // The places that stand for whole parameters.
  const std::vector<std::size_t>& wholes() const { return wholes_; }
  NamedTensors all(kvstore::Synchronizer* synchronizer);
  // As io::tensors_sha256 has it.
  std::string sha256(kvstore::Synchronizer* synchronizer);
  // What the rule keeps, of all cells: `own` has this one's, "slot0/fc1.weight", slice by slice.
  NamedTensors all_slots(NamedTensors own, std::size_t slots, bool keep);

 private:
  void find_owners();
  Tensor from_owner(std::size_t place, Tensor own);
  // The whole parameter, of what `part` gives for its places.
  using Part = std::function<Tensor(std::size_t place)>;
  Tensor joined(std::size_t number, const Part& part) const;
  const std::string& name_of(std::size_t number) const;

  const StepProgram& program_;
  kvstore::MeshLinks* links_;
  WeightUnits* units_;
  std::vector<std::size_t> wholes_;
  std::vector<int> owners_;  // by place: the first of the replica's workers that has it
};

std::string slot_prefix(std::size_t number);

}  // namespace lockstep::train::detail
