// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "lockstep/cluster/hosts.h"
#include "lockstep/comm/socket.h"

namespace lockstep::cluster {

struct LaunchOptions {
  std::vector<std::string> command = {};       // program and arguments of every worker
  std::vector<HostSlots> hosts = {};           // ranks in this order; empty: this machine
  int workers = 0;                             // 0: one for each slot
  std::vector<std::string> environment = {};   // NAME=VALUE, besides what each host has
  std::string folder = {};                     // where workers run; empty: our own folder
  std::string interface = {}, transport = {};  // for the workers (cluster/job.h)
  std::vector<std::string> ssh{"ssh"};         // reaches a host; more of ssh's options follow
  std::string program = {};                    // of lockstep, on the other hosts
  // Where workers find the launcher. No host: loopback, or the address that ssh came from; port 0:
  // a free one.
  comm::Endpoint coordinator = {};
  std::chrono::milliseconds timeout{60'000};  // until all hosts answer, and all workers meet
  // After one worker failed, the others have this long to end by themselves.
  std::chrono::milliseconds grace{10'000};
};

// How a worker ended: its exit status, or the signal that ended it, or why nobody knows.
struct WorkerEnd {
  int rank = 0;
  std::string host = {};  // empty in a job on this machine alone
  int status = 0;
  int signal = 0;
  std::string lost = {};
  bool by_launcher = false;  // a signal that we sent, after another worker's failure
  std::string last_lines =
      {};  // what it said last; rank 0's may have gone straight to the terminal
  bool is_good() const { return status == 0 && signal == 0 && lost.empty(); }
  // "worker 1 (b) was ended by signal 9 (Killed)"
  std::string str() const;
};

struct LaunchResult {
  std::vector<WorkerEnd> ends;  // in the order in which they ended
  int stopped_by = 0;           // SIGINT, SIGTERM or SIGHUP that came to us
  // The one to blame; null when all ended well, or as they were asked to by the signal.
  const WorkerEnd* culprit() const;
};

// Runs a job to its end: on this machine by fork, on others through ssh, which runs `lockstep
// launch --agent` there. Workers find their place in the environment (cluster/place.h). Rank 0's
// output is ours; lines of the others go to standard error with rank and host before them. SIGINT,
// SIGTERM and SIGHUP go on to all; a second one kills. When one worker fails, the others are ended;
// none outlives this process, however it ends. To be called before there are threads. Throws
// InvalidArgument, or IoError, NotFound, Refused, Timeout when a host, a port or a program is not
// to be had: then no worker runs.
LaunchResult launch(const LaunchOptions& options);

}  // namespace lockstep::cluster
