// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/cluster/diagnosis.h"

namespace lockstep::cli {

// Whether a job would run.
bool is_healthy(const std::vector<cluster::Problem>& problems);

// Tables of hosts and links, problems and what to do, a verdict.
std::string doctor_text(const cluster::Examination& examination,
                        const std::vector<cluster::Problem>& problems);
// One line: ok, members, links, problems.
std::string doctor_json(const cluster::Examination& examination,
                        const std::vector<cluster::Problem>& problems);

}  // namespace lockstep::cli
