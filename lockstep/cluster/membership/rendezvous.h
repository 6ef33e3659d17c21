// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/membership.h"
#include "lockstep/cluster/membership/membership_event.h"
#include "lockstep/cluster/membership/registry.h"
#include "lockstep/cluster/membership/store.h"
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
  bool survives = false;  // where all workers say so, the job goes on without one that is lost
  // Comes to a job that is under way: it has a generation when it has reported. Its rank is the id
  // that it wishes to have.
  bool is_late = false;
  std::chrono::milliseconds timeout{30'000};
  // Where another member takes the coordinator's place when it is gone, the job's name there, and
  // the ports that it may listen at; null: nobody does.
  std::shared_ptr<Store> store = {};
  std::string job = {};
  comm::PortRange ports = {};
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

// What a worker says when it has come out of a generation.
struct Standing {
  bool has_state = true;
  bool is_finished = false;  // it has nothing left to do
  std::int64_t step = -1;    // for people to read
  int missed = -1;           // the rank whose part did not come in time; -1: none
  std::string why = {};
  // A call between the workers has failed: no other call of the generation counts any more. Else
  // the others may still be at the end of the last one.
  bool is_broken = false;
};

// A generation is to end: after the step, or at once.
struct ChangeWanted {
  bool is_urgent = false;
  std::string why = {};
};

// A member's connection to the coordinator for the life of the job: it proves the secret, hears who
// is there, and says all the time that it lives. Its registry is the coordinator's. From any
// thread, but for all_gather: the members' calls meet in their order. In a job with a store the
// coordinator may be another one from some time on, and calls wait for it meanwhile.
class Rendezvous final : public Registry {
 public:
  // Returns when all members are there. Throws Timeout, Refused, PeerLost, Corrupt, NotFound (no
  // such interface), each with the coordinator's host and port and the reason.
  explicit Rendezvous(const RendezvousOptions& options);
  // Says goodbye.
  ~Rendezvous() override;

  // As the coordinator made it, the newest that this member was told of.
  const Membership& membership() const;
  std::int64_t id() const;
  int rank() const;                               // among the members of this one's role
  int size() const;                               // how many these are
  const std::vector<std::string>& hosts() const;  // theirs, by rank
  // This machine's address on the interface that reaches the coordinator.
  const std::string& address() const;

  // Every member of this one's role gives bytes, and gets those of all in order of rank. An error
  // breaks it for good, but for that of a generation that is over.
  std::vector<std::string> all_gather(const std::string& bytes, std::chrono::milliseconds timeout);

  // Asks the coordinator. Errors as of all_gather, but for a Timeout, which breaks nothing.
  MembershipStatus query(std::chrono::milliseconds timeout);

  // Whether every worker has said goodbye: servers end then. Costs next to nothing: the coordinator
  // is asked once, and answers when it is so. Throws what ended the job otherwise.
  bool have_workers_left();

  // Of a job that survives the loss of workers. What has been wanted since it was asked last;
  // nothing: the generation goes on. Costs next to nothing. From another thread than report().
  std::optional<ChangeWanted> poll_change();
  // Waits for the next generation, which membership() is then: true. False: this worker is not
  // needed any more. Throws Refused when it was put out of the job,
  // PeerLost when the coordinator has gone.
  bool report(const Standing& standing);
  bool is_run_done() const;  // after it was dismissed: so is the run
  // The four that follow have the time of options.timeout, and may be said again after a Timeout.
  // Wishes to leave after the step.
  void depart();
  // The job is to stop: report() waits for nobody else any more. From another thread than report().
  void wait_for_nobody();
  // Of the first worker: the result of the run, which is done, is told.
  void tell();
  // This member of the generation holds up all others: it is put out.
  void expel(std::int64_t id, const std::string& why);
  // What has happened to the members, as far as this one was told.
  const std::vector<MembershipEvent>& events() const;

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

// Tells it, without being a member: so many workers from now on; this worker is to leave after its
// step. Throw InvalidArgument where the job cannot do that.
void resize_job(const comm::Endpoint& coordinator, const std::string& secret, int workers,
                std::chrono::milliseconds timeout);
void dismiss_worker(const comm::Endpoint& coordinator, const std::string& secret, std::int64_t id,
                    std::chrono::milliseconds timeout);

}  // namespace lockstep::cluster
