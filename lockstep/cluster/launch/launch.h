// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "lockstep/base/core_binding.h"
#include "lockstep/base/membership.h"
#include "lockstep/cluster/launch/hosts.h"
#include "lockstep/cluster/membership/complaint.h"
#include "lockstep/comm/socket.h"

namespace lockstep::cluster {

struct LaunchOptions {
  std::vector<std::string> command = {};  // program and arguments of every process
  std::vector<HostSlots> hosts = {};      // ranks in this order; empty: this machine
  // Hosts for those whose own hosts are lost, or have lost too many of them.
  std::vector<HostSlots> spares = {};
  // Where `hosts` was read: hosts that are added there or taken away are noticed. Empty: nowhere.
  std::string hosts_file = {};
  int workers = 0;                             // 0: one for each slot
  int servers = 0;                             // beside the workers, one host after the other
  std::vector<std::string> environment = {};   // NAME=VALUE, besides what each host has
  std::string folder = {};                     // where workers run; empty: our own folder
  std::string interface = {}, transport = {};  // for the workers (membership/job.h)
  std::vector<std::string> ssh{"ssh"};         // reaches a host; more of ssh's options follow
  std::string program = {};                    // of lockstep, on the other hosts
  // Where workers find the launcher. No host: loopback, or the address that ssh came from; port 0:
  // a free one.
  comm::Endpoint coordinator = {};
  comm::PortRange ports = {};  // of every listener of the job
  // What each process says is kept here too, in a file of its own; empty: nowhere.
  std::string log_folder = {};
  Binding binding = Binding::none;            // of the workers to their hosts' cores
  std::chrono::milliseconds timeout{60'000};  // until all hosts answer, and all workers meet
  // After one worker failed, or all were asked to stop, they have this long to end by themselves.
  std::chrono::milliseconds grace{10'000};
  // Of a job that survives the loss of workers (JobOptions): the least that go on, and the most;
  // how many lost ones are replaced in all; how long one may be silent (0: as the timeout says).
  int min_workers = 1, max_workers = 1 << 20, max_restarts = 20;
  std::chrono::milliseconds heartbeat{0};
  // Where the state of the membership is kept (membership/store.h): the job goes on without this
  // process. Empty: in this process, and none of the others outlives it.
  std::string store = {};
};

// How a process of the job ended: its exit status, or the signal that ended it, or why nobody
// knows.
struct MemberEnd {
  std::int64_t id = 0;  // in the job: workers first
  Role role = Role::worker;
  int rank = 0;           // among the processes of its role
  std::string host = {};  // empty in a job on this machine alone
  std::int64_t pid = 0;   // there; 0: not known
  int status = 0;
  int signal = 0;
  std::string lost = {};
  std::string by_kernel = {};  // why it sent SIGKILL: "memory ran out; ..."
  bool by_launcher = false;    // a signal that we sent: it did not end by itself in time
  bool tolerated = false;      // one that the job could do without
  std::string missed = {};     // who says so, where others blame it
  std::string last_lines =
      {};  // what it said last; rank 0's may have gone straight to the terminal
  bool is_good() const { return status == 0 && signal == 0 && lost.empty(); }
  // SIGINT, SIGTERM or SIGHUP that somebody sent to it, and that it ended by; 0: none.
  int stopped_by() const;
  std::string name() const;  // "worker 1 (b)"
  std::string how() const;   // "was ended by signal 9 (Killed)"
  // "worker 1 (b) was ended by signal 9 (Killed)"
  std::string str() const;
};

struct LaunchResult {
  std::vector<MemberEnd> ends;  // in the order in which they ended
  // SIGINT, SIGTERM or SIGHUP that came to us, an agent or a worker; what ended before it is known.
  int stopped_by = 0;
  std::size_t ended_before_stop = 0;
  int restarts = 0;  // workers that were started in the place of lost ones
  // A job that survives losses has ended since all were lost that had the state of the run.
  bool lost_state = false;
  // A worker was lost before the job could do without one.
  bool lost_early = false;
  std::vector<Complaint> complaints = {};
  std::string killed_because =
      {};  // those that we had to end, after a stop; empty: by a second one
  // The one to blame; null when all ended well, or were asked to stop before any failed. Whoever
  // was missed by the others is to blame, and not the one who noticed.
  const MemberEnd* culprit() const;
  // Every process ended well, or the job could do without it.
  bool is_good() const;
  // Of a job that was stopped: the first that did not end as asked; null: none.
  const MemberEnd* first_unruly() const;
  // Null: it never ran.
  const MemberEnd* end_of(std::int64_t id) const;
  // Gives each end what the others say of it.
  void note_complaints();
};

// Runs a job to its end: on this machine by fork, on others through ssh, which runs `lockstep
// launch --agent` there. Workers find their place in the environment (membership/place.h). Rank 0's
// output is ours; lines of the others go to standard error with rank and host before them. SIGINT,
// SIGTERM and SIGHUP, whichever process of the job gets them first, go on to all, who have the
// grace period to end; a second one to us kills. When one worker fails, the others are ended, and
// so are servers that still run a grace period after all workers have ended well; none outlives
// this process, however it ends, but in a job with a store. A server's end is told and the job goes
// on where its members tolerate that (JobOptions); a worker's too, and another one is started in
// its place. To be called before there are threads. Throws InvalidArgument, or IoError, NotFound,
// Refused, Timeout when a host, a port or a program is not to be had: then no worker runs.
LaunchResult launch(const LaunchOptions& options);

}  // namespace lockstep::cluster
