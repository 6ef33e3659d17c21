// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/transport.h"

namespace lockstep::cluster {

// A name's value, and the number of the change that gave it this one: of two changes the later has
// the higher number, whatever names they are of.
struct StoreEntry {
  std::string name = {}, value = {};
  std::int64_t version = 0;
};

// Happens as a whole where all conditions hold, and else not at all.
struct StoreChange {
  struct Condition {
    std::string name = {};
    std::int64_t version = 0;  // 0: there is no such name
  };
  struct Put {
    std::string name = {}, value = {};
    std::int64_t lease = 0;  // with whose end the name goes; 0: it stays
  };
  std::vector<Condition> conditions = {};
  std::vector<Put> puts = {};
};

struct StoreLease {
  std::int64_t id = 0;
  std::chrono::milliseconds length{0};  // from when it is granted or kept alive
};

// Where the state of a job's membership is kept that outlives its coordinator. From any thread.
// Every call throws IoError, which says who did not answer, when nothing comes until the deadline.
class Store {
 public:
  virtual ~Store() = default;
  // Who it is, for messages.
  virtual std::string name() const = 0;

  virtual std::optional<StoreEntry> get(const std::string& name, comm::Deadline deadline) = 0;
  // All names that begin with `prefix`.
  virtual std::vector<StoreEntry> list(const std::string& prefix, comm::Deadline deadline) = 0;
  // The version of what was put; nothing where a condition does not hold.
  virtual std::optional<std::int64_t> commit(const StoreChange& change,
                                             comm::Deadline deadline) = 0;

  // It may be longer than asked for.
  virtual StoreLease grant(std::chrono::milliseconds length, comm::Deadline deadline) = 0;
  // False when it has ended.
  virtual bool keep_alive(const StoreLease& lease, comm::Deadline deadline) = 0;
  virtual void revoke(const StoreLease& lease, comm::Deadline deadline) = 0;
};

// etcd://HOST:PORT,HOST:PORT,...: the servers of one etcd (3.4 or later), of which any may be lost
// as long as most of them are there. Throws InvalidArgument for what is no such address.
std::shared_ptr<Store> open_store(const std::string& address);

}  // namespace lockstep::cluster
