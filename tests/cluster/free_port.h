// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/comm/socket.h"

namespace lockstep::testing {

// One that nobody has now.
inline int free_port() { return comm::local_endpoint(comm::listen_on({"127.0.0.1", 0})).port; }

}  // namespace lockstep::testing
