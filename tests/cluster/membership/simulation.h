// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::cluster {

// What a job can be made to do wrong, to see that the simulation notices.
enum class PlantedBug {
  none,
  skip_fencing,   // messages of another generation count
  deal_twice,     // a worker goes on with the shards of the generation before
  half_commit,    // a step counts when all votes but one are there
  half_transfer,  // who is behind takes the step's number, and not the state
};

struct SimulationOptions {
  std::uint64_t seed = 1;
  PlantedBug bug = PlantedBug::none;
};

struct SimulationResult {
  std::string wrong = {};  // empty: nothing
  std::string story = {};  // what happened, line by line
  std::int64_t generations = 0;
  int faults = 0;
  bool is_lost = false;  // nobody was left who had the state
};

// A job in one thread and virtual time: coordinator, workers and the network between them, with
// the classes that a job has (GenerationKeeper, GenerationMember). Workers are killed, stopped,
// cut off, asked to leave, and replaced; others come by themselves, and the job is made larger and
// smaller. A function of its options.
SimulationResult simulate(const SimulationOptions& options);

}  // namespace lockstep::cluster
