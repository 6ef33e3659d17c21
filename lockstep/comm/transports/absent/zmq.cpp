// SPDX-License-Identifier: Apache-2.0
// In place of ../zmq.cpp where ZeroMQ is not installed.
#include "lockstep/comm/transports/zmq.h"

#include "lockstep/comm/detail/message_wire.h"

namespace lockstep::comm {
namespace detail {
namespace {

[[noreturn]] void refuse() {
  throw Unsupported(
      "messages: this build has no ZeroMQ; install libzmq3-dev and cppzmq-dev and build again");
}

}  // namespace

std::unique_ptr<MessageWire> listen_by_zmq(const MessageServerOptions&, const Waker&) { refuse(); }

std::unique_ptr<MessageWire> connect_by_zmq(const MessageClientOptions&, std::uint64_t,
                                            const Waker&, Deadline) {
  refuse();
}

}  // namespace detail

bool has_zmq() { return false; }

std::unique_ptr<Transport> connect_zmq(const Bootstrap&) {
  throw Unsupported(
      "transport zmq: this build has none; install libzmq3-dev and cppzmq-dev and build again");
}

}  // namespace lockstep::comm
