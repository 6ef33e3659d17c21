// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/cluster/examination.h"
#include "lockstep/comm/communicator.h"

namespace lockstep::cluster::detail {

// Every rank calls them. The seconds that each rank's clock is before rank 0's; known to rank 0.
std::vector<double> measure_clocks(comm::Communicator& group);

// Every pair in turn while the others wait; known to rank 0.
std::vector<Link> measure_links(comm::Communicator& group);

}  // namespace lockstep::cluster::detail
