// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cluster/launch/launch.h"

namespace lockstep::cli {

// Says on standard error which worker ended the job before its time, where one did. Returns the
// exit status: 0, 1, 2 when that worker complained about its usage, or 128 and the signal that
// stopped the job. `how_to_go_on` is a command that the line ends with unless the
// worker failed by itself; it may be empty.
int report_launch(const cluster::LaunchResult& result, const std::string& how_to_go_on = "");

}  // namespace lockstep::cli
