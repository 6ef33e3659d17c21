// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/cluster/doctor/detail/measure_plan.h"
#include "lockstep/comm/communicator.h"

namespace lockstep::cluster::detail {

// Every rank calls them. The seconds that each rank's clock is before rank 0's; known to rank 0.
std::vector<double> measure_clocks(comm::Communicator& group);

// Round after round, as planned; known to all.
std::vector<Link> measure_links(comm::Communicator& group, const MeasurePlan& plan);

}  // namespace lockstep::cluster::detail
