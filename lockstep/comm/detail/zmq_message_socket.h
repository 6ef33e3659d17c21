// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <zmq.hpp>

#include "lockstep/comm/detail/message_wire.h"

namespace lockstep::comm::detail {

// What a server says to a client that has proved the secret, and the client's answer.
struct MessageWelcome {
  std::uint16_t port = 0;  // of the data
  bool encrypted = false;
  std::string ticket;                      // lets one data connection in, once; also its routing id
  std::string server_key;                  // of CURVE, as text; of zeros where nothing is encrypted
  std::chrono::milliseconds heartbeat{0};  // a client is heard so often at least
  // Where clients of the same host come, and how large a memory they may show; 0: they do not.
  std::string local_name = {};
  std::uint64_t local_bytes = 0;
};
struct MessageAnswer {
  std::string client_key;
  std::string name;
  bool reconnects = true;
  bool is_local = false;  // it has come, and shares its memory with the server
};
inline constexpr std::size_t kWelcomeBytes = 120, kAnswerBytes = 106;

std::string to_bytes(const MessageWelcome& welcome);
// Throws Refused when the other side speaks another version.
MessageWelcome to_welcome(std::string_view bytes);
std::string to_bytes(const MessageAnswer& answer);
MessageAnswer to_answer(std::string_view bytes);

// ROUTER or DEALER, with all that both have in common.
zmq::socket_t make_message_socket(zmq::context_t& context, zmq::socket_type type,
                                  const std::string& address, const MessageOptions& options);

// Without a copy: the body's owner is kept until ZeroMQ has sent it. False when there is no room.
bool send_frame(zmq::socket_t& socket, const std::string& routing, const Frame& frame);
// The frame whose header has just been received. Throws Corrupt.
Frame receive_frame(zmq::socket_t& socket, const zmq::message_t& header);

}  // namespace lockstep::comm::detail
