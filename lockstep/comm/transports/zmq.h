// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/comm/bootstrap.h"
#include "lockstep/comm/transport.h"

namespace lockstep::comm {

// ZeroMQ with CURVE: everything is encrypted, and both ends are known by keys that are made for
// this group alone. For networks that are not trusted. Every rank calls it.
std::unique_ptr<Transport> connect_zmq(const Bootstrap& bootstrap);

}  // namespace lockstep::comm
