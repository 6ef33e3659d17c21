// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "lockstep/comm/detail/shm_segment.h"

namespace lockstep::comm {

// How a rank waits for others in shared memory: it spins briefly, then gives its processor away,
// then sleeps until whoever publishes something wakes it. While it sleeps it looks now and then
// whether the others live, and whether somebody has failed. It does not spin for a rank on its
// own core, which can only go on when this one lets it.
class ShmWaiter {
 public:
  ShmWaiter(const ShmSegment& segment, const ShmOptions& options);
  ~ShmWaiter();
  ShmWaiter(const ShmWaiter&) = delete;
  ShmWaiter& operator=(const ShmWaiter&) = delete;

  // Waits until `blocker` returns -1; before, it returns a rank that is waited for. Throws.
  template <class Blocker>
  void wait(const Blocker& blocker, Deadline deadline, std::string_view operation) {
    for (int i = 0; i < spins_; ++i) {
      const int peer = blocker();
      if (peer < 0) return;
      if (i % kLook == kLook - 1 && shares_core(peer)) break;
      __builtin_ia32_pause();
    }
    wait_long(std::cref(blocker), deadline, operation);
  }

  // A new value, which wakes those who sleep.
  void publish(std::atomic<std::uint64_t>& counter, std::uint64_t value);
  void publish_to(int peer, std::atomic<std::uint64_t>& counter, std::uint64_t value);

  void wake(int rank) const;
  // Around a sleep elsewhere, which ShmOptions::wake ends, while `peer` is waited for.
  void park(int peer);
  void unpark();
  // What messages call a rank.
  int name(int rank) const;
  // Throws the group's first failure, if there is one.
  void check_failure(std::string_view operation) const;
  // The same, and when one of its ranks has died.
  void check_group(std::string_view operation) const;
  // The first failure wins. `rank` and `text` are in the names of messages.
  void fail(ShmFailure::Kind kind, int rank, const std::string& text) const;

 private:
  static constexpr int kLook = 16;  // spins between two looks at the cores

  bool shares_core(int peer) const;
  void show_core() const;
  bool is_too_many(int core) const;
  void leave_crowded_core();
  void wait_long(const std::function<int()>& blocker, Deadline deadline,
                 std::string_view operation);
  void sleep(std::uint32_t wakeups, Deadline deadline);
  void check_lives(int blocker, const std::function<int()>& still) const;
  bool has_died(int rank) const;
  void fail_late(int blocker) const;
  bool is_waiting(int rank) const;
  void sample_heartbeats();

  const ShmSegment& segment_;
  int rank_;
  int size_;
  std::string host_;
  std::vector<int> names_;
  std::function<void(int, Deadline, std::string_view)> on_wait_;
  std::function<void(int)> wake_elsewhere_;
  std::shared_ptr<Meter> meter_;
  int spins_;
  int yields_;
  Clock::time_point moved_ = {};
  std::vector<int> processes_;  // a pidfd for each rank; -1 where there is none
  struct Heartbeats {
    Clock::time_point time;
    std::vector<std::uint32_t> heartbeats;
  };
  Heartbeats before_, recent_;
};

}  // namespace lockstep::comm
