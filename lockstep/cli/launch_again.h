// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lockstep/cluster/launch/launch.h"

namespace lockstep::cli {

// The command that goes on with the run from its newest checkpoint; empty: there is nothing to go
// on with.
using GoOn = std::function<std::vector<std::string>()>;

// Launches a job, and again where all workers were lost that had the state of its run, as long as
// the lost ones are not more than options.max_restarts; and, of a job that `survives` losses, a few
// times where one was lost before its first step. An error of the program is none of these.
cluster::LaunchResult launch_until_done(cluster::LaunchOptions options, const GoOn& go_on,
                                        bool survives);

// `command` with what makes it go on with the run in `folder`.
std::vector<std::string> resuming(std::vector<std::string> command, const std::string& folder);

}  // namespace lockstep::cli
