// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cli/train_options.h"

namespace lockstep::cli {

// Takes --kvstore, --servers, --replicas, --staleness, --algorithm and --compression into the
// configuration. Throws WrongUsage.
void apply_mode_options(recipes::RunConfig& config, const TrainOptions& options,
                        std::int64_t workers);

}  // namespace lockstep::cli
