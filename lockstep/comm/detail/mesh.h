// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/comm/bootstrap.h"
#include "lockstep/comm/socket.h"

namespace lockstep::comm::detail {

// Connects every pair of ranks by `channels` TCP connections that have proved the job's secret:
// result[channel][rank], with no socket for the rank itself. Every rank calls it. Throws Timeout,
// Refused, PeerLost.
std::vector<std::vector<Socket>> connect_mesh(const Bootstrap& bootstrap, int channels);

}  // namespace lockstep::comm::detail
