// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::testing {

// What this process holds: all of it should be flat while the same things are done again and again.
struct Gauges {
  std::int64_t resident_kb = 0;  // VmRSS
  std::int64_t threads = 0;
  std::int64_t descriptors = 0;
  std::int64_t shared_memory = 0;  // mappings of files in /dev/shm, named or not
  std::int64_t live_bytes = 0;     // of the pool
  std::int64_t pooled_bytes = 0;
  std::string str() const;
};

// After unused memory went back, so that what stays is what somebody holds.
Gauges read_gauges();

}  // namespace lockstep::testing
