// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/io/archive.h"

namespace lockstep::train {

// The state of a training run between two steps, as a value: what a checkpoint keeps, and what a
// run that is resumed, or a worker that joins, goes on from. The sampler and all draws are
// functions of the step's number, so that number is the place in the epoch too.
struct Snapshot {
  std::int64_t step = 0;        // steps done
  std::string training = "{}";  // JSON: the trainer's own sums and history
  std::vector<io::NamedTensor> parameters = {};
  std::vector<io::NamedTensor> slots = {};  // "slot0/fc1.weight"
  // What workers that compress their gradients have not sent yet: "residual1/fc1.weight".
  std::vector<io::NamedTensor> residuals = {};
};

}  // namespace lockstep::train
