// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <mutex>
#include <stop_token>

#include "lockstep/comm/transport.h"

namespace lockstep::comm::detail {

// Whose turn it is to move the frames of a wire: to sleep until something comes, and to take it.
// Whoever waits for a message does so itself, so that nobody has to wake it. The wire's own thread
// does while nobody has waited for a moment, or where something is left to do at once. While it is
// nobody's turn, whoever holds the mutex may use the wire, without sleeping. All calls are made
// under the mutex of the wire's owner.
class WireTurn {
 public:
  bool is_free() const { return holder_ == Holder::nobody; }
  bool is_of_caller() const { return holder_ == Holder::caller; }

  // By one who waits for a message, while it is free.
  void take() { holder_ = Holder::caller; }
  // By whoever has it. The wire's own thread comes back after a moment.
  void leave();

  // The wire's own thread, which is to stop waiting when `is_over` says so: true when it is, or
  // still is, its turn.
  template <class F>
  bool await(std::unique_lock<std::mutex>& lock, const F& is_over) {
    while (!is_over()) {
      if (holder_ == Holder::own_thread || take_if_quiet()) return true;
      sleep(lock);
    }
    return false;
  }
  // It is to come at once, or to see that it is over.
  void call();

 private:
  enum class Holder { nobody, caller, own_thread };
  bool take_if_quiet();
  void sleep(std::unique_lock<std::mutex>& lock);

  Holder holder_ = Holder::nobody;
  Deadline left_ = {};
  bool is_called_ = false;
  bool asks_for_end_ = false;  // the own thread, which sleeps until the caller leaves
  std::condition_variable own_thread_;
};

}  // namespace lockstep::comm::detail
