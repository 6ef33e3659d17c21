// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/detail/zmq_refusals.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>

#include "lockstep/base/error.h"
#include "lockstep/comm/detail/zmq_interrupts.h"

namespace lockstep::comm::detail {
namespace {

constexpr const char* kAddress = "inproc://refusals";
constexpr int kEvents = ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED;

// The descriptor is ZeroMQ's: of one that was hung up on at once it is not known any more. Programs
// that are started meanwhile do not get the copy.
Endpoint source_of(int descriptor) {
  const Socket copy(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
  Endpoint from = peer_endpoint(copy);
  if (from.host.empty()) from.host = "unknown";
  return from;
}

}  // namespace

ZmqRefusals::ZmqRefusals(zmq::context_t& context, zmq::socket_t& listener, RefusalLog& log)
    : listener_(listener), log_(log), monitor_(context, zmq::socket_type::pair) {
  if (::zmq_socket_monitor(listener.handle(), kAddress, kEvents) != 0)
    throw IoError("messages: {}", ::zmq_strerror(errno));
  monitor_.set(zmq::sockopt::linger, 0);
  monitor_.set(zmq::sockopt::rcvhwm, 0);  // ZeroMQ's own thread would wait for us
  monitor_.connect(kAddress);
}

void ZmqRefusals::close() {
  ::zmq_socket_monitor(listener_.handle(), nullptr, 0);
  monitor_.close();
}

// An event is its number and a value, in one part, and an address in another.
void ZmqRefusals::look() {
  zmq::message_t part, rest;
  while (uninterrupted([&] { return monitor_.recv(part, zmq::recv_flags::dontwait); })) {
    while (monitor_.get(zmq::sockopt::rcvmore)) receive_rest(monitor_, rest);
    std::uint16_t event = 0;
    std::int32_t value = 0;
    if (part.size() != sizeof event + sizeof value) continue;
    std::memcpy(&event, part.data(), sizeof event);
    std::memcpy(&value, part.data<char>() + sizeof event, sizeof value);
    take(event, value);
  }
}

void ZmqRefusals::take(std::uint16_t event, int descriptor) {
  if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) ++let_in_;
  if (event == ZMQ_EVENT_ACCEPTED) unknown_[descriptor] = source_of(descriptor);
  if (event != ZMQ_EVENT_DISCONNECTED) return;
  const auto gone = unknown_.find(descriptor);
  if (gone == unknown_.end()) return;
  if (let_in_ > 0)
    --let_in_;  // and never said anything
  else
    log_.add(gone->second, "it did not prove at the data's port that it may come");
  unknown_.erase(gone);
}

void ZmqRefusals::take_first_message(const zmq::message_t& message) {
  look();
  const int descriptor = ::zmq_msg_get(message.handle(), ZMQ_SRCFD);
  if (unknown_.erase(descriptor) > 0 && let_in_ > 0) --let_in_;
}

}  // namespace lockstep::comm::detail
