// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::comm {

// What communication costs a process, and for whom it waits now. Written by the threads that
// communicate, read by any.
class Meter {
 public:
  using Clock = std::chrono::steady_clock;

  // What a thread waits for.
  struct Waiting {
    std::string operation;
    int rank = -1;  // of the peer; -1: the operation says who it is
    double seconds = 0.0;
  };

  void add_sent(std::size_t bytes) { sent_.fetch_add(bytes, std::memory_order_relaxed); }
  std::uint64_t bytes_sent() const { return sent_.load(std::memory_order_relaxed); }
  // Of all waits that are over.
  double seconds_waited() const {
    return static_cast<double>(waited_.load(std::memory_order_relaxed)) * 1e-9;
  }
  // The wait that began last and goes on; nothing when nobody waits.
  std::optional<Waiting> waiting() const;

  // While it lives, a thread waits. Without a meter it does nothing.
  class Wait {
   public:
    Wait(Meter* meter, std::string_view operation, int rank = -1);
    ~Wait();
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;
    // It is another peer by now.
    void set_rank(int rank);

   private:
    Meter* meter_;
    int rank_;
    Clock::time_point begin_;
    std::uint64_t number_ = 0;
  };

 private:
  std::atomic<std::uint64_t> sent_ = 0;
  std::atomic<std::int64_t> waited_ = 0;  // nanoseconds
  mutable std::mutex mutex_;              // of what follows
  std::uint64_t last_ = 0;                // number of the wait that began last
  std::string operation_;
  int rank_ = -1;
  Clock::time_point begin_ = {};
  bool goes_on_ = false;
};

}  // namespace lockstep::comm
