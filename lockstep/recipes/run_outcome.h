// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/recipes/run_config.h"
#include "lockstep/train/trainer.h"

namespace lockstep::recipes {

// The most memory that this process has had so far, in megabytes.
double peak_memory();

// What came out of a run, with what it was asked for.
struct RunOutcome {
  const RunConfig& config;
  const Recipe& recipe;
  std::int64_t workers;
  int threads;      // of each worker
  std::string run;  // the folder
  const train::FitResult& result;
  std::int64_t shard_state = 0;
  double peak_memory_mb = peak_memory();  // when training ended; a report needs some of its own
};

// One line: docs/cli.md says what is in it.
std::string outcome_json(const RunOutcome& outcome);
}  // namespace lockstep::recipes
