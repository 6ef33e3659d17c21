// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/cluster/membership/detail/roster.h"

namespace lockstep::cluster::detail {

// In what two members of a job are not alike; empty: in nothing.
std::string difference(const Participant& one, const Participant& other);

// Why one cannot be a member beside those that have joined; empty: it can.
std::string why_unfit(const Participant& one, const Roster& roster);

}  // namespace lockstep::cluster::detail
