// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace lockstep::cluster::detail {

// How many processes and open files there may be here. No limit is the largest number.
struct ProcessLimits {
  std::int64_t open_files = std::numeric_limits<std::int64_t>::max();  // of one process
  std::int64_t processes = std::numeric_limits<std::int64_t>::max();   // and threads, still free
  std::string processes_by = {};                                       // what limits them
};

// As the system says: ulimit -n and -u, the control group's pids.max, the kernel's pid_max.
ProcessLimits find_process_limits();

// Why so many workers cannot run on this machine; empty when they may.
std::string why_too_many(std::int64_t workers, const ProcessLimits& limits);

}  // namespace lockstep::cluster::detail
