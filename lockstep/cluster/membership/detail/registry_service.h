// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "lockstep/cluster/membership/detail/registry_table.h"
#include "lockstep/cluster/membership/detail/roster.h"

namespace lockstep::cluster::detail {

// The coordinator's side of a Registry: answers what members ask of it, some of it later. Whatever
// is wrong with a request, its sender alone hears of it.
class RegistryService {
 public:
  using Answer = std::function<void(const comm::MessageEvent& request, const Message& message)>;
  // Is told of every change before anybody else is. What it throws, nobody hears of the change.
  using Record = std::function<void(const std::string& name, const RegistryEntry& entry)>;
  // `roster` outlives it.
  RegistryService(const Roster& roster, Answer answer, Record record)
      : roster_(roster), answer_(std::move(answer)), record_(std::move(record)) {}

  // As another coordinator had it.
  void restore(const std::string& name, const RegistryEntry& entry) { table_.restore(name, entry); }

  void take(const comm::MessageEvent& request, const Put& put);
  void take(const comm::MessageEvent& request, const CompareAndSet& compare);
  void take(const comm::MessageEvent& request, const Get& get);

  // Those that have waited for too long, or for a member that has gone, hear that.
  void check_waiting();
  // The peer asks no more.
  void forget(std::uint64_t peer);
  // All that wait hear this.
  void answer_all(const Message& message);

 private:
  struct Waiting {
    comm::MessageEvent request;
    Get get;
    comm::Deadline deadline;
  };
  // Answers those that wait for this name.
  void pass_on(const std::string& name);
  // Nothing while it may still come.
  std::optional<Denied> why_not(const Waiting& waiting) const;
  Denied denied(const Get& get, Denied::Type type, std::string text) const;

  const Roster& roster_;
  Answer answer_;
  Record record_;
  RegistryTable table_;
  std::vector<Waiting> waiting_;
};

}  // namespace lockstep::cluster::detail
