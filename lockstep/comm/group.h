// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/comm/bootstrap.h"
#include "lockstep/comm/transport.h"

namespace lockstep::comm {

// How a group's ranks are connected. automatic: shared memory inside a host, tcp between hosts. A
// group of several hosts uses what is named here between hosts, and
// shared memory inside each; with zmq all that leaves a host is encrypted.
enum class TransportKind { automatic, shm, tcp, ucx, zmq };

// "auto", "shm", "tcp", "ucx", "zmq". Throws InvalidArgument, which lists them.
TransportKind parse_transport(std::string_view name);
std::string_view to_string(TransportKind kind);

// Every rank calls it. A group on one host is connected by shared memory alone; `shm` for a group
// of several hosts is InvalidArgument. Other errors are those of the transports.
std::unique_ptr<Transport> connect_group(const Bootstrap& bootstrap,
                                         TransportKind kind = TransportKind::automatic);

}  // namespace lockstep::comm
