// SPDX-License-Identifier: Apache-2.0
// In place of ../zmq.cpp where ZeroMQ is not installed.
#include "lockstep/comm/transports/zmq.h"

namespace lockstep::comm {

bool has_zmq() { return false; }

std::unique_ptr<Transport> connect_zmq(const Bootstrap&) {
  throw Unsupported(
      "transport zmq: this build has none; install libzmq3-dev and cppzmq-dev and build again");
}

}  // namespace lockstep::comm
