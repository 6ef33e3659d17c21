// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cli/train_report.h"
#include "lockstep/observe/run_folder.h"
#include "lockstep/train/recipe_data.h"

namespace lockstep::cli {

// Writes report.html: curves of the run's metrics, its configuration, and what the net makes of
// test data. The outcome's evaluation must have kept its predictions.
void write_run_report(const observe::RunFolder& run, const TrainOutcome& outcome,
                      const train::RecipeData& data, nn::Block& net);

}  // namespace lockstep::cli
