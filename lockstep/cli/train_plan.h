// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cli/train_options.h"

namespace lockstep::cli {

// `--plan`, of a process that nobody launched: measures, chooses, says so, and fills in the options
// that the command line leaves open. `config` is what the run would have without it. Throws
// WrongUsage where there is nothing to choose, InvalidArgument where nothing fits.
void take_plan(TrainOptions& options, const recipes::RunConfig& config);

}  // namespace lockstep::cli
