// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/cluster/doctor/diagnosis.h"

namespace lockstep::cluster::detail {

// Hosts that are slower than the others, links that are slower than their hosts, or one way slower
// than the other, and what is slow for training at all. What a slow host explains is not said again
// of its links.
std::vector<Problem> find_network_problems(const Examination& examination);

}  // namespace lockstep::cluster::detail
