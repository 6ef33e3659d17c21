// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/membership.h"
#include "lockstep/cluster/membership/registry.h"
#include "lockstep/comm/bootstrap.h"
#include "lockstep/comm/socket.h"

namespace lockstep::cluster {

struct RendezvousOptions {
  comm::Endpoint coordinator = {};
  std::string secret = {};
  Role role = Role::worker;
  int rank = -1;  // among the members of this role; -1: the coordinator deals one
  int workers = 1, servers = 0;
  std::string interface = {};  // a name or an address; empty: the one that reaches the coordinator
  std::string version = {};    // of the program; the same for all members
  std::string configuration = {};       // a hash of what all members must agree on
  std::string host = {};                // this machine's name; empty: the system's
  bool tolerates_lost_servers = false;  // where all say so, a server's end does not end the job
  std::chrono::milliseconds timeout{30'000};
};

// Who is in a job, and who of them is not heard, or has left.
struct MembershipStatus {
  Membership membership = {};
  std::vector<std::int64_t> absent = {};  // ids
};

// What a member said last of itself, and how long ago that was.
struct MemberReport {
  std::int64_t id = 0;
  std::string text = {};  // empty: it has said nothing yet
  std::chrono::milliseconds age{0};
  bool has_left = false;
};

// A member's connection to the coordinator for the life of the job: it proves the secret, hears who
// is there, and says all the time that it lives. Its registry is the coordinator's. From any
// thread, but for all_gather: the members' calls meet in their order.
class Rendezvous final : public Registry {
 public:
  // Returns when all members are there. Throws Timeout, Refused, PeerLost, Corrupt, NotFound (no
  // such interface), each with the coordinator's host and port and the reason.
  explicit Rendezvous(const RendezvousOptions& options);
  // Says goodbye.
  ~Rendezvous() override;

  // As the coordinator made it.
  const Membership& membership() const;
  std::int64_t id() const;
  int rank() const;                               // among the members of this one's role
  int size() const;                               // how many these are
  const std::vector<std::string>& hosts() const;  // theirs, by rank
  // This machine's address on the interface that reaches the coordinator.
  const std::string& address() const;

  // Every member of this one's role gives bytes, and gets those of all in order of rank. An error
  // breaks it for good.
  std::vector<std::string> all_gather(const std::string& bytes, std::chrono::milliseconds timeout);

  // Asks the coordinator. Errors as of all_gather.
  MembershipStatus query(std::chrono::milliseconds timeout);

  // Whether every worker has said goodbye: servers end then. Costs next to nothing: the coordinator
  // is asked once, and answers when it is so. Throws what ended the job otherwise.
  bool have_workers_left();

  // A call that fails breaks nothing, as long as the coordinator is there.
  std::int64_t put(const std::string& name, const std::string& bytes,
                   std::chrono::milliseconds timeout = kTimeout) override;
  RegistryEntry get(const std::string& name, std::chrono::milliseconds timeout,
                    const RegistryWait& wait = {}) override;
  ComparedEntry compare_and_set(const std::string& name, std::int64_t expected_version,
                                const std::string& bytes,
                                std::chrono::milliseconds timeout = kTimeout) override;

  // Tells the coordinator what this member is doing, for whoever asks. Never waits and never fails:
  // where the last report is not answered yet, this one is left out. The first worker gets what all
  // members have said, as far as it is known by now.
  std::vector<MemberReport> report(const std::string& text) noexcept;

  // Tells the coordinator, if it is there to hear it, that this member ends since it missed the
  // one of this rank, among those of its own role.
  void complain(int rank, const std::string& text) noexcept;

  // For the transports of comm/, between the members of this one's role. It refers to this object.
  comm::Bootstrap bootstrap();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Asks a job's coordinator without being a member. Throws as Rendezvous does.
MembershipStatus query_membership(const comm::Endpoint& coordinator, const std::string& secret,
                                  std::chrono::milliseconds timeout);

}  // namespace lockstep::cluster
