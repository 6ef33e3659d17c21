// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace lockstep::cluster {

struct LocalLaunch {
  int workers = 1;
  // Program and arguments of a worker.
  std::function<std::vector<std::string>(int rank)> command;
  // After one worker failed, the others have this long to end by themselves.
  std::chrono::milliseconds grace{10'000};
};

// How a worker ended: its exit status, or the signal that ended it.
struct WorkerEnd {
  int rank = 0;
  int status = 0;
  int signal = 0;
  std::string last_lines = {};  // what it said last; rank 0's output is the caller's own
  bool is_good() const { return status == 0 && signal == 0; }
  // "worker 1 was ended by signal 9 (Killed)"
  std::string str() const;
};

// Runs processes on this machine, to their end. Rank 0 has our standard input and output; lines of
// the others go to standard error with their rank before them. SIGINT, SIGTERM and SIGHUP go on to
// all, once each. When one fails, the others are ended; none outlives this process, however it
// ends. Returns the workers in the order in which they ended. Throws IoError when one cannot be
// started.
std::vector<WorkerEnd> launch_local(const LocalLaunch& launch);

}  // namespace lockstep::cluster
