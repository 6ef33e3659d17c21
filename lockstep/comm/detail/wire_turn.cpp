// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/detail/wire_turn.h"

#include <utility>

namespace lockstep::comm::detail {
namespace {

// Callers that ask one thing after the other leave it to nobody else in between; what nobody waits
// for comes so much later.
constexpr auto kQuiet = std::chrono::milliseconds(5);

}  // namespace

void WireTurn::leave() {
  holder_ = Holder::nobody;
  left_ = Clock::now();
  if (std::exchange(asks_for_end_, false)) own_thread_.notify_one();
}

void WireTurn::call() {
  is_called_ = true;
  own_thread_.notify_one();
}

bool WireTurn::take_if_quiet() {
  if (!is_free() || (!is_called_ && Clock::now() < left_ + kQuiet)) return false;
  is_called_ = false;
  holder_ = Holder::own_thread;
  return true;
}

// One look at a time of quiet, not one for each turn.
void WireTurn::sleep(std::unique_lock<std::mutex>& lock) {
  if (is_free()) {
    own_thread_.wait_until(lock, left_ + kQuiet);
  } else {
    asks_for_end_ = true;
    own_thread_.wait(lock);
  }
}

}  // namespace lockstep::comm::detail
