// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/memory_error.h"

#include "lockstep/base/machine_limits.h"

namespace lockstep {

void throw_no_memory(const std::string& what) {
  const std::string limits = memory_limits_text();
  throw OutOfMemory("{}: there is not enough memory{}{}", what, limits.empty() ? "" : ": ", limits);
}

}  // namespace lockstep
