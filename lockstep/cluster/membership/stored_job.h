// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/membership.h"
#include "lockstep/cluster/membership/membership_event.h"
#include "lockstep/cluster/membership/registry.h"
#include "lockstep/cluster/membership/store.h"
#include "lockstep/comm/socket.h"

namespace lockstep::cluster {

// What a coordinator has decided so far, and another one goes on from.
struct JobRecord {
  std::int64_t number = 0;  // of the record, from 1
  Membership membership = {};
  int workers = 1, servers = 0;  // at the beginning
  int min_workers = 1, max_workers = 1;
  std::chrono::milliseconds patience{0}, heartbeat{0};
  std::vector<std::int64_t> used_ids = {}, leaving = {};
  bool tolerates_lost_servers = false;
  bool is_over = false;
  std::int64_t teller = -1;                  // who tells the result
  std::string failure = {};                  // of a job that is over
  std::vector<MembershipEvent> events = {};  // the newest
  auto fields() {
    return std::tie(number, membership, workers, servers, min_workers, max_workers, patience,
                    heartbeat, used_ids, leaving, tolerates_lost_servers, is_over, teller, failure,
                    events);
  }
  bool is_run_done() const { return is_over && teller >= 0; }
};

// Who coordinates a job at the time.
struct Leader {
  comm::Endpoint endpoint = {};
  std::string token = {};    // no two coordinators have the same
  std::int64_t version = 0;  // the store's, of its election
  bool operator==(const Leader& other) const { return token == other.token; }
};

// A job's names in a store, all below "lockstep/ID/".
class StoredJob {
 public:
  StoredJob(std::shared_ptr<Store> store, std::string id);

  Store& store() const { return *store_; }
  std::string name_of(const std::string& what) const { return prefix_ + what; }

  // Nothing while there is no coordinator, or it has recorded nothing yet. Throw IoError, Corrupt.
  std::optional<Leader> leader(comm::Deadline deadline) const;
  std::optional<JobRecord> record(comm::Deadline deadline) const;
  // Waits for one. Throws Timeout, IoError.
  Leader await_leader(std::chrono::milliseconds timeout) const;

 private:
  std::shared_ptr<Store> store_;
  std::string prefix_;
};

// Of a coordinator whose members may be silent for so long.
std::chrono::milliseconds lease_length(std::chrono::milliseconds heartbeat);

// The coordinator of a job is another one now, or may be: this one must not decide anything.
class Deposed final : public Error {
 public:
  using Error::Error;
  const char* kind() const noexcept override { return "Deposed"; }
};

// The right to coordinate a job, for as long as its lease is kept alive, which a thread does. A
// coordinator that cannot reach the store until the end of the lease has lost it.
class Leadership {
 public:
  // Null where another one has it. Throws IoError.
  static std::unique_ptr<Leadership> campaign(const StoredJob& job, const comm::Endpoint& endpoint,
                                              std::chrono::milliseconds length,
                                              comm::Deadline deadline);
  // Gives it back: another one can have it at once.
  ~Leadership();
  Leadership(const Leadership&) = delete;
  Leadership& operator=(const Leadership&) = delete;

  bool is_valid() const;
  // What the coordinator before this one left; none: this is the first.
  const std::optional<JobRecord>& former() const;
  // The registry as it left it, by name.
  const std::vector<std::pair<std::string, RegistryEntry>>& registry() const;

  // Each happens only while nobody else has been elected. They throw Deposed otherwise.
  void write(JobRecord record);
  void write(const std::string& name, const RegistryEntry& entry);

  // As if this process had ended: the lease runs out.
  void abandon();

 private:
  struct Impl;
  explicit Leadership(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::cluster
