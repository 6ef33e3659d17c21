// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::cluster {

// What a process can know of the machine it runs on, as far as a job depends on it.
struct HostFacts {
  std::string version = {};                    // of lockstep
  std::string processor = {};                  // its name
  std::string instructions = {};               // the sets that kernels use: "sse4 avx2 avx512"
  std::string bad_instructions = {};           // sets whose kernels fail: "amx ended by SIGILL"
  std::int64_t cores = 0;                      // that this process may use (usable_threads)
  std::int64_t machine_cores = 0;              // that there are
  std::int64_t memory = 0;                     // bytes that there are
  std::int64_t memory_limit = 0;               // of the control group; 0: none
  std::int64_t memory_free = 0;                // of both, the less
  std::int64_t shm = 0, shm_free = 0;          // of /dev/shm
  std::int64_t open_files = 0;                 // the most that this process may have
  std::int64_t first_port = 0, last_port = 0;  // what the system deals for port 0
};

// What cannot be found out is 0 or empty.
HostFacts look_at_host();

std::string to_bytes(const HostFacts& facts);
// Throws Corrupt.
HostFacts facts_from(const std::string& bytes);

}  // namespace lockstep::cluster
