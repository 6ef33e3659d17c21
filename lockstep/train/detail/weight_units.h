// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "lockstep/kvstore/synchronizer.h"
#include "lockstep/train/detail/step_program.h"

namespace lockstep::train::detail {

// Of workers that share the weights: stretches of them that are gathered together, those of one
// segment each, and room for two at a time. Segments that follow one another have rooms of their
// own, so that one comes while another is used.
class WeightUnits {
 public:
  // From now on the program's weights are in these rooms. Both outlive it.
  WeightUnits(StepProgram& program, const kvstore::FlatLayout& layout);

  // Floats of the layout, [begin, end): none where a segment has no weights that learn.
  struct Unit {
    std::size_t begin = 0, end = 0;
    std::size_t size() const { return end - begin; }
  };
  std::size_t size() const { return units_.size(); }
  const Unit& unit(std::size_t segment) const { return units_[segment]; }
  std::size_t largest() const;
  std::size_t bytes() const;

  // The weights have changed: whatever is here is old.
  void forget();
  // A segment's weights are on their way, and then here; every worker calls both, in one order. Who
  // was in the room is not needed any more.
  void start(std::size_t segment, kvstore::Synchronizer& synchronizer);
  void wait(std::size_t segment, kvstore::Synchronizer& synchronizer);
  // Between steps: one parameter of the net, by its number, comes to its place; whatever else was
  // there is old. By every worker.
  void bring(std::size_t parameter, kvstore::Synchronizer& synchronizer);

 private:
  struct Room {
    std::optional<kvstore::FlatBuffer> memory = {};
    std::size_t floats = 0;
    std::optional<std::size_t> segment = {};  // that is here, or on its way
    comm::WorkPtr work = nullptr;
  };
  Room& room_of(std::size_t segment) { return rooms_[segment % rooms_.size()]; }
  void find_units();
  void make_rooms();
  // Where the parameter is while its segment's weights are here.
  float* place_of(const kvstore::FlatParameter& parameter);

  StepProgram& program_;
  const kvstore::FlatLayout& layout_;
  std::vector<Unit> units_;
  std::vector<Room> rooms_;
};

}  // namespace lockstep::train::detail
