// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "lockstep/cluster/membership/complaint.h"
#include "lockstep/cluster/membership/membership_event.h"
#include "lockstep/cluster/membership/stored_job.h"
#include "lockstep/comm/socket.h"

namespace lockstep::cluster {

struct CoordinatorOptions {
  // Loopback unless a host says otherwise: "0.0.0.0", "::", or one of its own addresses.
  comm::Endpoint listen{"127.0.0.1", 0};
  comm::PortRange ports = {};  // of which a free one is taken where `listen` names none
  std::string secret = {};
  int workers = 1, servers = 0;
  std::chrono::milliseconds timeout{30'000};           // until all have joined
  std::chrono::milliseconds handshake_timeout{5'000};  // for one connection to prove the secret
  std::chrono::milliseconds heartbeat{30'000};  // a member that is not heard for so long is late
  // A line for each host whose connections are refused, and at the end how many they were.
  std::function<void(const std::string&)> log = {};
  // Of a job that survives the loss of workers: it waits while there are fewer, has never more, and
  // waits so long for a member to come out of its step.
  int min_workers = 1, max_workers = 1 << 20;
  std::chrono::milliseconds patience{60'000};
  std::function<void(const MembershipEvent&)> on_event = {};  // by the thread that runs it
  // The worker in whose process it runs: that one cannot leave. -1: none.
  std::int64_t own_worker = -1;
  // A number for a worker that comes by itself, where whoever starts workers numbers them too.
  std::function<std::int64_t()> new_id = {};
};

// Decides who is in a job, for as long as the job lives. It makes the membership when all have
// joined and sends it to everybody, hears their heartbeats, says who is there (query_membership),
// and passes small messages between the members of a role (Rendezvous::all_gather).
class Coordinator {
 public:
  // Listens from now on. Throws IoError: the port is in use, the address is not this host's.
  explicit Coordinator(const CoordinatorOptions& options);
  ~Coordinator();

  comm::Endpoint endpoint() const;

  // Before run(): what is decided is kept in the job's store, and where another coordinator has
  // kept something there, this one goes on from it. run() then throws Deposed when the leadership
  // is lost: the members are told nothing, and look for the next one.
  void lead(std::unique_ptr<Leadership> leadership);

  // Serves until every member has said goodbye, or `stop` is asked. Throws Timeout when not all
  // join in time, Refused when members do not fit together, PeerLost when one goes without a
  // goodbye; all members are told why first. Where all members tolerate it (JobOptions), a server
  // that goes is absent, and the job goes on.
  void run(const std::stop_token& stop = {});

  // Whether the loss of a server leaves the job as it is: known when all have joined. From any
  // thread.
  bool tolerates_lost_servers() const;
  // Whether the loss of a worker leaves the job going on: once every worker is ready for that, and
  // until the run's result is told. From any thread.
  bool survives_lost_workers() const;
  // Whether that was so at some time, though it may be over. From any thread.
  bool has_survived() const;
  // It is told: whoever is lost now takes nothing from it. From any thread.
  bool is_run_done() const;
  // The process of this worker has ended, whatever its connection says. From any thread.
  void note_ended(std::int64_t id);
  // This worker is to leave after its step; as long as it is the only one, or has not come, later.
  // Unless it was let go already, it may stay after all. From any thread.
  void release(std::int64_t id);
  void keep(std::int64_t id);
  // Who is the first of the workers now. From any thread.
  std::int64_t first_worker() const;

  // After run(): which members were missed, and by whom. Those that were not heard at the end are
  // missed by the coordinator.
  std::vector<Complaint> complaints() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::cluster
