// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <zmq.hpp>

#include "lockstep/comm/refusal_log.h"

namespace lockstep::comm::detail {

// Notes who comes to a ZeroMQ socket that listens and is not let in. ZeroMQ says which connections
// came and ended, and how many got through its handshake, but not which: that is known from the
// first message of each.
class ZmqRefusals {
 public:
  // Before anybody comes. The log outlives this.
  ZmqRefusals(zmq::context_t& context, zmq::socket_t& listener, RefusalLog& log);
  // To be called before the listener is closed.
  void close();

  // What has happened by now.
  void look();
  // Of somebody who was let in.
  void take_first_message(const zmq::message_t& message);
  zmq::socket_t& socket() { return monitor_; }

 private:
  void take(std::uint16_t event, int descriptor);

  zmq::socket_t& listener_;
  RefusalLog& log_;
  zmq::socket_t monitor_;
  std::map<int, Endpoint> unknown_;  // by their descriptors
  int let_in_ = 0;                   // of those that are unknown
};

}  // namespace lockstep::comm::detail
