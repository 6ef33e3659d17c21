// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "lockstep/cluster/launch/launch.h"
#include "lockstep/cluster/membership/place.h"
#include "lockstep/observe/job_list.h"

namespace lockstep::cli {

// This user's jobs on this host: in XDG_RUNTIME_DIR, else XDG_STATE_HOME, else ~/.local/state.
observe::JobList job_list();

// This process is about to launch a job: it is in the list while the result lives, and the job's
// processes know who their launcher is.
observe::ListedJob list_launcher(cluster::LaunchOptions& options);

// The process that a signal stops the job by: the launcher, where it is one of ours.
ProcessMark launcher_mark();

// The first worker knows the run's folder. Its job is in the list by its launcher, or else while
// the result lives.
std::unique_ptr<observe::ListedJob> list_run(
    const std::string& folder, const std::optional<cluster::Place::Launcher>& launcher);

}  // namespace lockstep::cli
