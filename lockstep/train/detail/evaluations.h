// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/train/trainer.h"

namespace lockstep::train::detail {

// What is remembered of an evaluation, and what of it can be told from that.
EvaluationRecord record_of(const Evaluation& evaluation, std::int64_t step, std::int64_t epoch);
Evaluation evaluation_of(const EvaluationRecord& record);

// By what the best checkpoint is chosen.
Monitor monitor_for(const FitOptions& options, const EvaluationRecord& record);

// Before the first step: throws InvalidArgument when the schedule watches evaluations and there
// are none, and NotFound when it, or the monitor of checkpoints, watches what no evaluation has.
void check_watched(const FitOptions& options, bool has_accuracy);

}  // namespace lockstep::train::detail
