// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/observe/progress.h"

namespace lockstep::recipes {

// The folder of a named set below `cache` (data::cache_dir), fetched where it is missing; a bar
// shows how far it is. `verify` checks the sums of what is there, and fetches it again where they
// are wrong.
std::string fetch_set(const std::string& name, const std::string& cache,
                      observe::Progress& progress, bool verify = false);

}  // namespace lockstep::recipes
