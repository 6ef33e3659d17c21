// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "bench/responder.h"

namespace lockstep::bench {

struct ScaleOptions {
  bool json = false;
  bool quick = false;
  bool peer = true;
  std::vector<std::string> recipes = {};  // none: all that bench train has
  std::vector<int> workers = {1, 2, 4};
  std::vector<int> threads = {1, 2};
};

// `lockstep train` of each recipe with each number of workers and of threads, run as a user runs
// it; beside it PyTorch's DistributedDataParallel on two processes. Prints a row for each. Throws
// Corrupt when two of a recipe's runs end with different parameters.
void run_scale(const ScaleOptions& options);

// Runs of one recipe with so many workers and threads, one rate a round.
struct ScaleSetup {
  int workers = 1;
  int threads = 1;
  std::vector<double> rates = {};
  std::string params_sha256 = {};
  // That can compute at the same time.
  int used_cores(int cores) const;
};

// Throws Corrupt, naming both setups.
void check_same_parameters(const std::string& recipe, const std::vector<ScaleSetup>& setups);
// How many times the first setup's rate, round by round; and that in parts of what the cores that
// it uses more would give.
Json scaling_of(const ScaleSetup& setup, const ScaleSetup& first, int cores);

}  // namespace lockstep::bench
