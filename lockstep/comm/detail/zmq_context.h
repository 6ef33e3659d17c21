// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <zmq.hpp>

namespace lockstep::comm::detail {

// ZeroMQ sets up its multicast library with a process's first context and takes it down with the
// last, and the one may not run beside the other: an unused context stays until the process ends.
inline zmq::context_t make_zmq_context() {
  static const auto* const stays = new zmq::context_t;
  static_cast<void>(stays);
  return zmq::context_t();
}

}  // namespace lockstep::comm::detail
