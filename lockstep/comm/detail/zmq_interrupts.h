// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <chrono>
#include <vector>
#include <zmq.hpp>

// ZeroMQ ends a call with an error (EINTR) when a signal's handler runs in its thread meanwhile. A
// user's own handler is no reason to break off.
namespace lockstep::comm::detail {

// Makes the call again for as long as it is interrupted: for calls that do not wait.
template <class F>
decltype(auto) uninterrupted(const F& call) {
  while (true) {
    try {
      return call();
    } catch (const zmq::error_t& error) {
      if (error.num() != EINTR) throw;
    }
  }
}

// Another part of a message whose first one has come: all of them have.
inline void receive_rest(zmq::socket_t& socket, zmq::message_t& part) {
  static_cast<void>(uninterrupted([&] { return socket.recv(part); }));
}

// Waits; when it is interrupted, nothing is ready.
inline void poll_sockets(std::vector<zmq::pollitem_t>& watched, int milliseconds) {
  try {
    zmq::poll(watched, std::chrono::milliseconds(milliseconds));
  } catch (const zmq::error_t& error) {
    if (error.num() != EINTR) throw;
  }
}

}  // namespace lockstep::comm::detail
