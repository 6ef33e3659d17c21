// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace lockstep::cluster::detail {

// Processes below this one whose parents have ended, however they left their groups and sessions:
// from now on they fall to this process, and not to init.
void become_subreaper();

// By a signal, not by a debugger.
bool is_stopped(pid_t process);

// Not there, or ended and never waited for.
bool is_gone(pid_t process);

// Takes the exit status of those that have ended, and of nobody in `known`.
void reap_orphans(const std::vector<pid_t>& known);

// Ends all children of this process but those in `known`, and what these have started.
void kill_orphans(const std::vector<pid_t>& known);

// Ends all processes that have been started with `mark` in their environment.
void kill_marked(const std::string& mark);

}  // namespace lockstep::cluster::detail
