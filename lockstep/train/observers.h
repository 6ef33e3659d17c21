// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/observe/progress.h"
#include "lockstep/observe/run_folder.h"
#include "lockstep/train/callback.h"

namespace lockstep::train {

// A bar an epoch on a terminal, plain lines elsewhere; evaluations and warnings between them.
CallbackPtr show_progress(observe::ProgressTarget target = observe::standard_error());

// The first worker's warnings on standard error, a line each.
CallbackPtr print_warnings();

// Every step and evaluation in the run folder's metrics.jsonl, and in its TensorBoard event files.
// A resumed run goes on where its checkpoint was.
CallbackPtr record_metrics(const observe::RunFolder& run);

// What happens to the workers of a job that survives losses, in the run folder's events.jsonl: a
// line for each MembershipEvent that is not there yet.
CallbackPtr record_membership(const observe::RunFolder& run);

}  // namespace lockstep::train
