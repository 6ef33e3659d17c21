// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/detail/weight_units.h"

#include <algorithm>

#include "lockstep/base/error.h"

namespace lockstep::train::detail {

WeightUnits::WeightUnits(StepProgram& program, const kvstore::FlatLayout& layout)
    : program_(program),
      layout_(layout),
      units_(program.first().parts()),
      rooms_(std::min<std::size_t>(2, size())) {
  find_units();
  make_rooms();
}

// Gradients are made segment by segment, and parameters stand in that order.
void WeightUnits::find_units() {
  for (const kvstore::FlatParameter& parameter : layout_.parameters) {
    Unit& unit = units_[program_.part_of(parameter)];
    if (unit.size() == 0) unit.begin = unit.end = parameter.offset;
    check(unit.end <= parameter.offset, "a segment's parameters are not side by side");
    unit.end = parameter.offset + parameter.count;
  }
  for (const kvstore::FlatParameter& parameter : layout_.parameters)
    for (std::size_t s = 0; s < size(); ++s)
      check(s == program_.part_of(parameter) || parameter.offset < units_[s].begin ||
                parameter.offset >= units_[s].end,
            "a segment's parameters are not side by side");
}

void WeightUnits::make_rooms() {
  for (std::size_t s = 0; s < size(); ++s)
    room_of(s).floats = std::max(room_of(s).floats, units_[s].size());
  for (Room& room : rooms_) room.memory.emplace(room.floats);
  for (const kvstore::FlatParameter& parameter : layout_.parameters)
    program_.use_memory(parameter, place_of(parameter));
}

float* WeightUnits::place_of(const kvstore::FlatParameter& parameter) {
  const std::size_t segment = program_.part_of(parameter);
  return room_of(segment).memory->data() + (parameter.offset - units_[segment].begin);
}

void WeightUnits::bring(std::size_t number, kvstore::Synchronizer& synchronizer) {
  forget();
  for (const kvstore::FlatParameter& parameter : layout_.parameters)
    if (parameter.number == number)
      synchronizer.start_gathering(parameter.offset, {place_of(parameter), parameter.count})
          ->wait();
}

std::size_t WeightUnits::largest() const {
  std::size_t floats = 0;
  for (const Unit& unit : units_) floats = std::max(floats, unit.size());
  return floats;
}

std::size_t WeightUnits::bytes() const {
  std::size_t floats = 0;
  for (const Room& room : rooms_) floats += room.floats;
  return floats * sizeof(float);
}

// What is still on its way comes first: all workers have started it.
void WeightUnits::forget() {
  for (Room& room : rooms_) {
    if (room.work) room.work->wait();
    room.work.reset();
    room.segment.reset();
  }
}

void WeightUnits::start(std::size_t segment, kvstore::Synchronizer& synchronizer) {
  Room& room = room_of(segment);
  if (room.segment == segment) return;
  check(room.work == nullptr, "a room for weights that somebody is on the way to");
  const Unit& unit = units_[segment];
  room.segment = segment;
  if (unit.size() > 0)
    room.work = synchronizer.start_gathering(unit.begin, {room.memory->data(), unit.size()});
}

void WeightUnits::wait(std::size_t segment, kvstore::Synchronizer& synchronizer) {
  start(segment, synchronizer);
  Room& room = room_of(segment);
  if (!room.work) return;
  const comm::WorkPtr work = std::move(room.work);
  work->wait();
  program_.weights_changed(segment);
}

}  // namespace lockstep::train::detail
