// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/cli/train_options.h"
#include "lockstep/observe/run_folder.h"
#include "lockstep/recipes/run_outcome.h"

namespace lockstep::cli {

// For people: how the loss went, how good the model is, where to look, what to try next. `report`
// may be empty.
std::string outcome_text(const recipes::RunOutcome& outcome, const observe::RunFolder& run,
                         const std::string& report);

// What to say at the start of a --bf16 run whose products are so many times as fast as in float32;
// empty where there is nothing to say.
std::string bfloat16_notice(double speedup, const std::string& isa);

// `lockstep train ...` with what differs from the recipe: makes the same run again.
std::string train_command(const recipes::RunConfig& config, std::int64_t workers);
// `lockstep train ...` that goes on with the run in `folder`.
std::string resume_command(const TrainOptions& options, const std::string& folder);

}  // namespace lockstep::cli
