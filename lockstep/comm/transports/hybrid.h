// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/comm/bootstrap.h"
#include "lockstep/comm/transport.h"

namespace lockstep::comm {

// For a group of several hosts: shared memory between the ranks of a host, and what `between`
// (a tcp, zmq or ucx transport of all the ranks) gives between hosts. Reductions in canonical order
// go in two levels, so that what crosses a link crosses it once and not once for each rank. Every
// rank calls it. Throws what connect_shm throws.
std::unique_ptr<Transport> connect_hybrid(const Bootstrap& bootstrap,
                                          std::unique_ptr<Transport> between);

}  // namespace lockstep::comm
