// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/cluster/doctor/diagnosis.h"

namespace lockstep::cli {

// Whether a job would run.
bool is_healthy(const std::vector<cluster::Problem>& problems);

// A verdict and the network in a line, problems and what to do, then tables of members, hosts and
// links.
std::string doctor_text(const cluster::Examination& examination,
                        const std::vector<cluster::Problem>& problems);
// One line: ok, network, members, hosts, links, problems.
std::string doctor_json(const cluster::Examination& examination,
                        const std::vector<cluster::Problem>& problems);

}  // namespace lockstep::cli
