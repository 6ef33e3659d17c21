// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/detail/zmq_message_socket.h"

#include <malloc.h>

#include <atomic>
#include <mutex>
#include <utility>

#include "lockstep/comm/detail/local_rendezvous.h"
#include "lockstep/comm/detail/zmq_interrupts.h"

namespace lockstep::comm::detail {
namespace {

constexpr std::uint8_t kVersion = 3;
constexpr std::size_t kTicket = 32, kKey = 40, kName = 64;
constexpr std::size_t kLong = 64 << 20;
constexpr int kHighWater = 32;            // frames that wait on each side of a connection
constexpr int kHandshakeTime = 5000;      // milliseconds; then a silent stranger is hung up on
constexpr int kNever = 1 << 30;           // milliseconds, of 12 days
constexpr int kStaleConnection = 60'000;  // of a peer that is stopped: its memory is given back
constexpr int kKeepAlive = 10;  // seconds between questions whether a quiet peer's host is there
// A frame with what CURVE puts around it (33 bytes: rfc.zeromq.org/spec/26). More closes the
// connection, before authentication and after it.
constexpr std::int64_t kLongestFrame = Payload::kLongestSegment + 64;

std::string padded(std::string text, std::size_t length) {
  text.resize(length, '\0');
  return text;
}

std::string take_text(std::string_view& from, std::size_t length) {
  const std::string text(from.substr(0, length));
  from.remove_prefix(length);
  return text;
}

// What a message in ZeroMQ's hands keeps alive. Its thread lets go of it, after the sender's is
// through with it: said here, where everybody can see it.
struct Sent {
  Payload::Owner owner;
  std::atomic<bool> is_handed_over = false;
};

void release(void* /*bytes*/, void* sent) {
  auto* own = static_cast<Sent*>(sent);
  own->is_handed_over.wait(false, std::memory_order_acquire);
  delete own;
}

// ZeroMQ takes every frame from malloc, which by default returns what is freed to the system as
// soon as it is more than a few frames: then each page of the next message is a new one, which
// takes half of the time of a long message. This is where malloc itself ends up after it has freed
// a block of 32 MB. For the whole process, so only where messages may be long.
void keep_freed_frames() {
  static std::once_flag once;
  std::call_once(once, [] {
    ::mallopt(M_MMAP_THRESHOLD, 32 << 20);
    ::mallopt(M_TRIM_THRESHOLD, 64 << 20);
  });
}

zmq::message_t to_message(const Payload::Segment& body) {
  if (body.bytes.empty()) return {};
  auto* sent = new Sent{body.owner};
  sent->is_handed_over.store(true, std::memory_order_release);
  return {const_cast<std::byte*>(body.bytes.data()), body.bytes.size(), release, sent};
}

}  // namespace

std::string to_bytes(const MessageWelcome& welcome) {
  std::string bytes;
  put_number(bytes, kVersion, 1);
  put_number(bytes, welcome.port, 2);
  put_number(bytes, welcome.encrypted ? 1 : 0, 1);
  put_number(bytes, static_cast<std::uint64_t>(welcome.heartbeat.count()), 4);
  put_number(bytes, welcome.local_bytes, 8);
  return bytes + padded(welcome.ticket, kTicket) + padded(welcome.server_key, kKey) +
         padded(welcome.local_name, kLocalName);
}

MessageWelcome to_welcome(std::string_view bytes) {
  const std::uint64_t version = take_number(bytes, 1);
  if (version != kVersion)
    throw Refused(fmt::format("it speaks version {} of the messages' protocol, this is version {}",
                              version, kVersion));
  MessageWelcome welcome;
  welcome.port = static_cast<std::uint16_t>(take_number(bytes, 2));
  welcome.encrypted = take_number(bytes, 1) != 0;
  welcome.heartbeat = std::chrono::milliseconds(take_number(bytes, 4));
  welcome.local_bytes = take_number(bytes, 8);
  welcome.ticket = take_text(bytes, kTicket);
  welcome.server_key = take_text(bytes, kKey);
  welcome.local_name = take_text(bytes, kLocalName);
  return welcome;
}

std::string to_bytes(const MessageAnswer& answer) {
  return padded(answer.client_key, kKey) + padded(answer.name, kName) +
         (answer.reconnects ? '\1' : '\0') + (answer.is_local ? '\1' : '\0');
}

MessageAnswer to_answer(std::string_view bytes) {
  MessageAnswer answer{take_text(bytes, kKey), take_text(bytes, kName), take_number(bytes, 1) != 0,
                       take_number(bytes, 1) != 0};
  answer.name.resize(std::min(answer.name.find('\0'), kName));
  return answer;
}

zmq::socket_t make_message_socket(zmq::context_t& context, zmq::socket_type type,
                                  const std::string& address, const MessageOptions& options) {
  if (options.longest_message > kLong) keep_freed_frames();
  zmq::socket_t socket(context, type);
  socket.set(zmq::sockopt::linger, 0);
  socket.set(zmq::sockopt::sndhwm, kHighWater);
  socket.set(zmq::sockopt::rcvhwm, kHighWater);
  socket.set(zmq::sockopt::maxmsgsize, kLongestFrame);
  socket.set(zmq::sockopt::handshake_ivl, kHandshakeTime);
  if (options.drops_silent) {
    socket.set(zmq::sockopt::heartbeat_ivl, kStaleConnection / 4);
    socket.set(zmq::sockopt::heartbeat_timeout, kStaleConnection);
  }
  socket.set(zmq::sockopt::tcp_keepalive, 1);
  socket.set(zmq::sockopt::tcp_keepalive_idle, kKeepAlive);
  socket.set(zmq::sockopt::tcp_keepalive_intvl, kKeepAlive);
  // A new connection is made with a new ticket. (With -1, never, what has come and is unread would
  // be dropped together with the connection.)
  socket.set(zmq::sockopt::reconnect_ivl, kNever);
  socket.set(zmq::sockopt::ipv6, address.find(':') != std::string::npos);
  return socket;
}

bool send_frame(zmq::socket_t& socket, const std::string& routing, const Frame& frame) {
  const auto more = zmq::send_flags::sndmore | zmq::send_flags::dontwait;
  const auto send_part = [&](const std::string& part) {
    return uninterrupted([&] { return socket.send(zmq::buffer(part), more).has_value(); });
  };
  if (!routing.empty() && !send_part(routing)) return false;
  // Of a message in parts the first finds room or none does.
  if (!send_part(to_bytes(frame.header))) return false;
  zmq::message_t body = to_message(frame.body);
  const bool is_sent =
      uninterrupted([&] { return socket.send(body, zmq::send_flags::dontwait).has_value(); });
  check(is_sent, "half a frame was sent");
  return true;
}

Frame receive_frame(zmq::socket_t& socket, const zmq::message_t& header) {
  auto body = std::make_shared<zmq::message_t>();
  if (socket.get(zmq::sockopt::rcvmore)) receive_rest(socket, *body);
  bool too_many = false;
  for (zmq::message_t rest; socket.get(zmq::sockopt::rcvmore); too_many = true)
    receive_rest(socket, rest);
  if (too_many) throw Corrupt("a message of too many frames");
  const std::span<const std::byte> bytes(body->data<std::byte>(), body->size());
  return {to_header(header.to_string_view()), {bytes, std::move(body)}};
}

}  // namespace lockstep::comm::detail
