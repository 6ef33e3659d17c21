// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/data/dataset.h"
#include "lockstep/train/trainer.h"

namespace lockstep::train::detail {

// JSON of what all workers of a run must have in common: its configuration and, besides, what a run
// that is resumed may change, and what the data sets hold.
std::string agreement_json(const std::string& configuration, const nn::Block& net,
                           const LossFunction& loss, const TrainerOptions& trainer,
                           const FitOptions& fit, const data::Dataset& dataset);

}  // namespace lockstep::train::detail
