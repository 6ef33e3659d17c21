// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "bench/responder.h"

namespace lockstep::bench {

inline constexpr int kMostPushedKilobytes = 32 * 1024;

// A member of the job that bench ps launches: a server serves; worker 0 prints a line for each
// operation, size and number of keys.
struct PsSide {
  bool quick = false;
  bool values_only = false;         // and no rows of a table
  std::vector<int> kilobytes = {};  // of all keys together
  std::vector<int> keys = {};
};
// The exit status.
int serve_ps(const PsSide& side);

struct PsBenchOptions {
  bool json = false;
  bool quick = false;
  int workers = 1;
  std::vector<int> servers = {1, 2};
  std::vector<int> kilobytes = {1, 4, 16, 64, 256, 1024, 4096, kMostPushedKilobytes};
  std::vector<int> keys = {1, 16};
  std::string train = {};  // a recipe: every way of having the same parameters, instead
};
void run_ps(const PsBenchOptions& options);
// The same training job with each kvstore, in turns. Prints a row for each: its rate, its loss
// after the same number of samples, and how stale gradients were; or why the build refuses it.
// Throws Corrupt when those in step end with different parameters.
void run_ps_train(const PsBenchOptions& options);

// Of one kvstore: one rate a round, and what the last run said.
struct StoreRuns {
  std::string kvstore;
  bool in_step = true;
  std::vector<double> rates = {};
  Json last = {};
};
// Throws Corrupt, naming both.
void check_same_parameters(const std::string& recipe, const std::vector<StoreRuns>& all);

}  // namespace lockstep::bench
