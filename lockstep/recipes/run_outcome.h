// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/base/peak_memory.h"
#include "lockstep/recipes/run_config.h"
#include "lockstep/train/trainer.h"

namespace lockstep::recipes {

// What came out of a run, with what it was asked for.
struct RunOutcome {
  const RunConfig& config;
  const Recipe& recipe;
  std::int64_t workers;
  int threads;      // of each worker
  std::string run;  // the folder
  const train::FitResult& result;
  std::int64_t shard_state = 0;
  // When training ended; a report needs some of its own.
  double peak_memory_mb = lockstep::peak_memory_mb();
  std::int64_t stages = 1;  // workers of a pipeline
  std::int64_t tensor = 1;  // workers that share the slices of a replica
};

// One line: docs/cli.md says what is in it.
std::string outcome_json(const RunOutcome& outcome);
}  // namespace lockstep::recipes
