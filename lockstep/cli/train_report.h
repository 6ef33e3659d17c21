// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/cli/run_config.h"
#include "lockstep/cli/train_options.h"
#include "lockstep/observe/run_folder.h"
#include "lockstep/train/trainer.h"

namespace lockstep::cli {

// What came out of a run, with what it was asked for.
struct TrainOutcome {
  const RunConfig& config;
  const train::Recipe& recipe;
  std::int64_t workers;
  int threads;      // of each worker
  std::string run;  // the folder
  const train::FitResult& result;
};

// One line: docs/cli.md says what is in it.
std::string outcome_json(const TrainOutcome& outcome);
// For people: how the loss went, how good the model is, where to look, what to try next. `report`
// may be empty.
std::string outcome_text(const TrainOutcome& outcome, const observe::RunFolder& run,
                         const std::string& report);

// What to say at the start of a --bf16 run whose products are so many times as fast as in float32;
// empty where there is nothing to say.
std::string bfloat16_notice(double speedup, const std::string& isa);

// `lockstep train ...` with what differs from the recipe: makes the same run again.
std::string train_command(const RunConfig& config, std::int64_t workers);
// `lockstep train ...` that goes on with the run in `folder`.
std::string resume_command(const TrainOptions& options, const std::string& folder);

}  // namespace lockstep::cli
