// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <string>
#include <zmq.hpp>

#include "lockstep/base/error.h"
#include "lockstep/comm/socket.h"

namespace lockstep::comm::detail {

// Listens at a free port of `ports`. Throws zmq::error_t, or IoError when none of them is free.
inline void bind_in(zmq::socket_t& socket, const std::string& host, const PortRange& ports) {
  for (const std::uint16_t port : ports_to_try(ports)) {
    try {
      return socket.bind("tcp://" + to_string(Endpoint{host, port}));
    } catch (const zmq::error_t& error) {
      const bool is_taken = error.num() == EADDRINUSE || error.num() == EACCES;
      if (ports.is_any() || !is_taken) throw;
    }
  }
  throw IoError("{}: cannot listen: none of the ports {} is free; give the job more (--ports)",
                host, to_string(ports));
}

}  // namespace lockstep::comm::detail
