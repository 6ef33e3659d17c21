// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/comm/bootstrap.h"
#include "lockstep/comm/transport.h"

namespace lockstep::comm {

// A way to connect a group's ranks. Every rank calls it; errors are those of the transports.
using Connect = std::unique_ptr<Transport>(const Bootstrap& bootstrap);

struct TransportType {
  std::string_view name;
  Connect* connect;
};

// "auto": shared memory inside a host, tcp between hosts. "shm": shared memory alone, for the ranks
// of one host, else InvalidArgument. The others are used between hosts, and on one host if asked
// for; a group of several hosts has shared memory inside each. With "zmq" all that leaves a host is
// encrypted. Empty is auto. Throws InvalidArgument, which lists the names.
const TransportType& find_transport(std::string_view name);
std::vector<std::string> transport_names();

// As auto does.
std::unique_ptr<Transport> connect_group(const Bootstrap& bootstrap);

}  // namespace lockstep::comm
