// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "lockstep/cluster/membership/detail/conversation.h"
#include "lockstep/cluster/membership/detail/coordinator_thread.h"
#include "lockstep/cluster/membership/stored_job.h"

namespace lockstep::cluster::detail {

// The job has ended, and so has its coordinator.
class JobEnded final : public comm::CommError {
 public:
  explicit JobEnded(const JobRecord& last)
      : CommError("membership: the job is over" +
                      (last.failure.empty() ? std::string() : ": " + last.failure),
                  -1, "", "rendezvous"),
        is_run_done_(last.is_run_done()) {}
  const char* kind() const noexcept override { return "JobEnded"; }
  bool is_run_done() const { return is_run_done_; }

 private:
  bool is_run_done_;
};

// A member's way to whoever coordinates its job. In a job with a store, that may change: when the
// coordinator is gone or another one is in its place, this member finds the next, or is elected and
// coordinates the job itself, in a thread of this process.
class CoordinatorLink {
 public:
  // Connects. Throws as Rendezvous does.
  explicit CoordinatorLink(const RendezvousOptions& options);
  // Says goodbye where leave() was called before. A coordinator of our own stays until all members
  // have heard that the run is done; else the others find another one.
  ~CoordinatorLink();
  CoordinatorLink(const CoordinatorLink&) = delete;
  CoordinatorLink& operator=(const CoordinatorLink&) = delete;

  bool can_change() const { return job_.has_value(); }
  std::shared_ptr<Conversation> now() const;
  void leave();

  // This one has joined; `own` is how it comes to another coordinator. From now on there may be
  // another one.
  void keep(std::function<Rejoin()> own);

  // What `ask` asks of the coordinator, and of the next one where it goes meanwhile. Throws what
  // `ask` throws, JobEnded, Refused when this member is out of the job, and PeerLost when there is
  // no coordinator.
  template <class F>
  auto ask(const F& ask) {
    for (auto conversation = now();;) {
      try {
        return ask(*conversation);
      } catch (const CoordinatorGone& gone) {
        conversation = next(conversation, gone);
      }
    }
  }

 private:
  void watch(const std::stop_token& stop);
  bool is_in_charge(Conversation& conversation);
  void replace(const std::stop_token& stop);
  bool find_next();
  void connect(const Leader& leader);
  void elect(const JobRecord& record);
  std::string listen_host(const JobRecord& record) const;
  void give_up(std::exception_ptr why);
  std::shared_ptr<Conversation> next(const std::shared_ptr<Conversation>& gone,
                                     const CoordinatorGone& why);

  RendezvousOptions options_;
  std::optional<StoredJob> job_;
  std::optional<Leader> leader_;                // whom now_ is with
  comm::Deadline next_look_ = {};               // at the store
  std::unique_ptr<CoordinatorThread> elected_;  // our own
  mutable std::mutex mutex_;                    // of what follows
  std::condition_variable changed_;
  std::shared_ptr<Conversation> now_;
  std::function<Rejoin()> own_ = {};
  std::exception_ptr gave_up_ = {};
  std::jthread watcher_ = {};
};

}  // namespace lockstep::cluster::detail
