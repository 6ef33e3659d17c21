// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cluster/launch.h"

namespace lockstep::cli {

// Says on standard error which worker ended the job before its time, where one did. Returns the
// exit status: 0, 1, 2 when that worker complained about its usage, or 128 and the signal that
// stopped the job.
int report_launch(const cluster::LaunchResult& result);

}  // namespace lockstep::cli
