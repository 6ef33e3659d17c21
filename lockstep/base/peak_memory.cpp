// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/peak_memory.h"

#include <sys/resource.h>

namespace lockstep {

double peak_memory_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1000.0;
}

}  // namespace lockstep
