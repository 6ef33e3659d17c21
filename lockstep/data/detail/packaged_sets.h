// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/data/detail/install.h"

namespace lockstep::data::detail {

// The named sets that npm packages hold, and how they are made of them.
std::vector<PackagedSet> packaged_sets();

}  // namespace lockstep::data::detail
