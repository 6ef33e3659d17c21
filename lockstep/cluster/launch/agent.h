// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>

#include <chrono>
#include <optional>

namespace lockstep::cluster {

struct AgentOptions {
  int input = 0, output = 1;  // where the launcher is
  bool has_terminal =
      false;  // on the launcher's own machine: rank 0 has our standard input, output
  // A launcher on another machine that is not heard for so long (5 s at least) is gone. One on this
  // machine may be stopped (Ctrl-Z), and when it ends, its pipes close.
  std::chrono::milliseconds timeout{60'000};
  std::chrono::milliseconds grace{10'000};  // of workers that are asked to stop
  // What workers have blocked; none: what this process has.
  std::optional<sigset_t> mask = {};
};

// A launcher's hand on one host: starts its workers there, passes on what they say and how they
// end, and ends them all when the launcher goes, however it goes, unless they are to outlive it:
// then it stays until they have ended. A signal that asks it to stop
// goes to its workers and, by the launcher, to all others. Returns the exit status.
int run_agent(const AgentOptions& options);

}  // namespace lockstep::cluster
