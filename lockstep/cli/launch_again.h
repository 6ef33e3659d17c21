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

// What the loss of a worker means to a job: its end; the others go on; or, where nobody else had
// what it had, all begin again from the newest checkpoint.
enum class AfterLoss { ends, goes_on, begins_again };

// Launches a job, and again where all workers were lost that had the state of its run, as long as
// the lost ones are not more than options.max_restarts; and, of a job that goes on after losses, a
// few times where one was lost before its first step. An error of the program is none of these.
cluster::LaunchResult launch_until_done(cluster::LaunchOptions options, const GoOn& go_on,
                                        AfterLoss after_loss);

// `command` with what makes it go on with the run in `folder`.
std::vector<std::string> resuming(std::vector<std::string> command, const std::string& folder);

}  // namespace lockstep::cli
