// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::train {

// Where the time of a step went, of a job of several workers that are in step.
struct StepCost {
  double compute_s = 0.0;  // forward and backward passes of this worker's shards
  // After them, until the step counted: for peers and servers. Where that is not measured (over MPI
  // alone), all that time.
  double wait_s = 0.0;
  std::uint64_t bytes_sent = 0;      // by this worker, to peers and servers
  int slowest_rank = 0;              // the worker that computed longest
  double slowest_s = 0.0;            // how long
  std::vector<double> seconds = {};  // each worker's passes, by rank
};

// The same of all steps of a run together.
struct RunCost {
  std::int64_t steps = 0;
  double compute_s = 0.0, wait_s = 0.0;
  std::uint64_t bytes_sent = 0;
  int slowest_rank = 0;            // the worker that was slowest most often
  std::int64_t slowest_steps = 0;  // in how many steps
};

// How long a pipeline's worker waited for its neighbours, and of how long all in all, in the passes
// of its steps but the first.
struct WaitedTime {
  double seconds = 0.0, of_seconds = 0.0;
};

}  // namespace lockstep::train
