// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "lockstep/cluster/membership/alignment.h"
#include "lockstep/cluster/membership/care.h"
#include "lockstep/cluster/membership/place.h"
#include "lockstep/cluster/membership/rendezvous.h"
#include "lockstep/comm/communicator.h"

namespace lockstep::cluster {

struct JobOptions {
  std::string transport = {};                 // of comm/group.h, or "mpi"; empty: the place's
  std::string interface = {};                 // a name or an address; empty: the place's
  comm::PortRange ports = {};                 // to listen at; any: the place's
  std::string configuration = {};             // what all members must agree on, or its hash
  std::chrono::milliseconds timeout{60'000};  // until all have come
  // The loss of a server is none of the job: others have what it had. All members say the same.
  bool tolerates_lost_servers = false;
  // A worker that is lost does not end the job: the others go on in another generation. All members
  // say the same. Not over MPI alone, nor in jobs of MXNet's launcher. Where the first worker
  // coordinates, the job ends with its process.
  bool survives = false;
  Care care = {};
  // Called before the members meet and before they are connected, with "meet" and "connect".
  std::function<void(std::string_view)> on_phase = {};
};

// This process's connection to the other members of its job. A program that `lockstep launch`,
// mpirun or srun starts makes one of these and trains over its communicator.
class Job final : public Registry {
 public:
  // Throws Timeout, Refused, PeerLost, NotFound, each naming host, port and reason.
  explicit Job(const Place& place, const JobOptions& options = {});
  ~Job() override;

  // Who is in the job, as its coordinator made it, and what this process is there.
  // Of a job that survives losses it changes in regroup(): it is that of the present generation,
  // and of the last one where this member has come out of it. From any thread, and so are rank()
  // and size().
  Membership membership() const;
  std::int64_t id() const;
  Role role() const;
  int rank() const;  // among the members of this role
  int size() const;  // how many these are
  // False of a worker that comes late, before its first generation, and of one that has left before
  // the run was done. From any thread.
  bool is_in_generation() const;
  // What the members prove to each other, for connections of their own. Unsupported over MPI alone,
  // and so is this machine's address on the interface that reaches the coordinator.
  const std::string& secret() const;
  const std::string& address() const;
  // Where it listens. The same.
  const comm::Endpoint& coordinator() const;
  // Between the members of this role: workers with workers, servers with servers. None of a worker
  // that comes late, before its first generation.
  comm::Communicator& communicator();
  // The same for whoever calls in between, from any thread: of the present generation, whose end
  // aborts it and does not destroy it; null: this member is the only one of its role. Of a job that
  // survives, when its run is done, that of the last generation: whoever is still kept there to
  // tell the result may go then, as after tell(). Throws InvalidArgument where !is_in_generation(),
  // and Aborted between two generations.
  std::shared_ptr<comm::Communicator> shared_communicator();
  // What this process's collectives and requests to servers cost it, and for whom it waits.
  const std::shared_ptr<comm::Meter>& meter() const;
  // The ports that this process may listen at.
  const comm::PortRange& ports() const;
  // Tells the coordinator what this member is doing, without waiting; the first worker gets what
  // all members have said (Rendezvous::report). Nothing over MPI alone.
  std::vector<MemberReport> report(const std::string& text) noexcept;
  // Asks the coordinator who is there now. Throws as all_gather of a Rendezvous does, Unsupported
  // over MPI alone, where there is none.
  MembershipStatus query(std::chrono::milliseconds timeout);
  // Whether every worker has said goodbye: a server asks this all the time, and ends then. Throws
  // what ended the job otherwise.
  bool have_workers_left();
  // The coordinator's registry (membership/registry.h), of all members of every role. From any
  // thread. Unsupported over MPI alone.
  std::int64_t put(const std::string& name, const std::string& bytes,
                   std::chrono::milliseconds timeout = kTimeout) override;
  RegistryEntry get(const std::string& name, std::chrono::milliseconds timeout,
                    const RegistryWait& wait = {}) override;
  ComparedEntry compare_and_set(const std::string& name, std::int64_t expected_version,
                                const std::string& bytes,
                                std::chrono::milliseconds timeout = kTimeout) override;
  // Of a job that survives (JobOptions). From here on a change of the members is heard of: one that
  // cannot wait aborts the communicator.
  bool survives() const;
  bool is_late() const;
  void watch_members();
  // Whether the generation is to end after this step.
  bool wants_change() const;
  // Throws Aborted when this generation, or a later one, had to end at once. From any thread; for
  // who waits for somebody else than the other workers.
  void check_goes_on(std::int64_t generation) const;
  // Comes out of the generation, waits for the next one, and connects its workers. False: this one
  // is not needed any more, since it was asked to leave or the run is done (is_run_done). Throws
  // CommError where the new generation is over before it began: then call it again; Refused when
  // this worker was put out of the job, and when the coordinator has gone.
  // The communicators of former generations live until settle().
  bool regroup(const Standing& standing);
  bool is_run_done() const;
  // The workers of a new generation say where they are: who gives its state to whom.
  Alignment align(const Progress& own);
  void settle();
  // This worker wishes to leave after its step.
  void depart();
  // The job is to stop: regroup(), in another thread, waits for nobody else any more.
  void wait_for_nobody();
  // Of the first worker, when the run is done: its result is told, and the others may go; until
  // then they are there to tell it in its place.
  void tell();
  // This member holds up all others, though it is heard: it is put out.
  void expel(std::int64_t id, const std::string& why);
  std::vector<MembershipEvent> events() const;

  // Says goodbye before this object's end, as when a program ends and objects of its own are still
  // there: what needs the coordinator is an error from here on.
  void leave();

  // To be called with the error that ends this member: whoever launched the job names the one that
  // was missed, and not the one that noticed.
  void complain(const comm::CommError& error) noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::cluster
