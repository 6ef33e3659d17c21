// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>

#include "lockstep/comm/transport.h"

namespace lockstep::cluster::detail {

// Whether somebody who should be heard all the time has been silent for too long. It is counted in
// looks of our own: while this process is stopped or its machine sleeps, nobody else is silent.
class HeartbeatMonitor {
 public:
  explicit HeartbeatMonitor(std::chrono::milliseconds longest) : every_(interval(longest)) {}

  // How often to be heard, where the other side waits as long.
  static std::chrono::milliseconds interval(std::chrono::milliseconds longest) {
    return longest / kLooks;
  }

  void heard() { looks_ = 0; }
  // To be called all the time; true whenever an interval is over.
  bool tick() {
    const auto now = comm::Clock::now();
    if (now < next_) return false;
    next_ = now + every_;
    ++looks_;
    return true;
  }
  bool is_late() const { return looks_ >= kLooks; }

 private:
  static constexpr int kLooks = 6;
  std::chrono::milliseconds every_;
  comm::Clock::time_point next_ = comm::Clock::now() + every_;
  int looks_ = 0;
};

// A launcher and its agents hear each other this often at least: a machine with more to do than it
// can may let a second pass.
constexpr std::chrono::milliseconds heartbeat_deadline(std::chrono::milliseconds timeout) {
  return std::max<std::chrono::milliseconds>(timeout, std::chrono::seconds(5));
}

}  // namespace lockstep::cluster::detail
