// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep::cli {

// Where fetched data sets are kept: the environment is read here, once.
std::string data_cache();

}  // namespace lockstep::cli
