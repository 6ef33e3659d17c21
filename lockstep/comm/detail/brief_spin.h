// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <thread>

#include "lockstep/comm/transport.h"

namespace lockstep::comm::detail {

// Looks again and again for a moment before a thread sleeps: to be woken takes longer than a short
// wait. It does so while waits are short. After one in vain a number of short ones is to come
// first, which grows with each, so that a process whose peer has no core of its own takes none from
// it. One thread at a time.
class BriefSpin {
 public:
  static constexpr auto kLongest = std::chrono::microseconds(50);

  // True as soon as `look` is. False: nothing came, or it does not pay, and the thread should
  // sleep.
  template <class F>
  bool run(Deadline until, const F& look) {
    const Deadline now = Clock::now();
    began_ = until > now ? now : Deadline{};  // one that only looks has not slept
    if (needed_ > 0 || until <= now || !has_cores()) return false;
    const Deadline end = now + kLongest;
    do
      if (look()) {
        in_vain_ = 0;
        return true;
      }
    while (Clock::now() < end);
    in_vain_ = std::min(2 * in_vain_ + 1, kMostNeeded);
    needed_ = in_vain_;
    return false;
  }
  // After run() was false: the thread has slept, until something came.
  void note_sleep() {
    if (needed_ > 0 && Clock::now() - began_ < kShort) --needed_;
  }

 private:
  static constexpr auto kShort = std::chrono::microseconds(150);  // with the time to be woken
  static constexpr int kMostNeeded = 63;
  static bool has_cores() {
    static const bool several = std::thread::hardware_concurrency() > 1;
    return several;
  }

  Deadline began_ = {};
  int needed_ = 0;   // short sleeps before it is tried again
  int in_vain_ = 0;  // grows with each time
};

}  // namespace lockstep::comm::detail
