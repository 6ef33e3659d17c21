// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/observe/progress.h"

namespace lockstep::cli {

// Where fetched data sets are kept: the environment is read here, once.
std::string data_cache();
// The folder of a named set, fetched where it is missing; a bar shows how far it is. `verify`
// checks the sums of what is there, and fetches it again where they are wrong.
std::string fetch_set(const std::string& name, observe::Progress& progress, bool verify = false);

}  // namespace lockstep::cli
