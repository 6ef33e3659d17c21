// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/comm/bootstrap.h"
#include "lockstep/comm/transport.h"

namespace lockstep::comm {

// Plain sockets: the one that needs no library and works wherever TCP does. Every rank calls it.
// Not encrypted: for networks that are trusted.
std::unique_ptr<Transport> connect_tcp(const Bootstrap& bootstrap);

}  // namespace lockstep::comm
