// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace lockstep {

// Seconds since 1970, by the clock on the wall: for people and for other hosts. It may jump.
inline double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace lockstep
