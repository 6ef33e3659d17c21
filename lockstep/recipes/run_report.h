// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/observe/run_folder.h"
#include "lockstep/recipes/recipe_data.h"
#include "lockstep/recipes/run_outcome.h"

namespace lockstep::recipes {

// Writes report.html: curves of the run's metrics, its configuration, and what the net makes of
// test data. `command` makes the same run again. The outcome's evaluation must have kept its
// predictions.
void write_run_report(const observe::RunFolder& run, const RunOutcome& outcome,
                      const RecipeData& data, nn::Block& net, const std::string& command);

}  // namespace lockstep::recipes
