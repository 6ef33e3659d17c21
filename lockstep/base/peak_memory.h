// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep {

// The most memory that this process has had so far, in megabytes.
double peak_memory_mb();

}  // namespace lockstep
