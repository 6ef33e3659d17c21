// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "lockstep/cluster/membership/detail/messages.h"
#include "lockstep/comm/authenticated_listener.h"

namespace lockstep::cluster::detail {

// Messages over a connection that has proved the secret. Each carries an HMAC under the
// connection's own key over its direction and number: nobody on the way can change, repeat or
// insert one. Never blocks.
class Session {
 public:
  enum class Side { coordinator, member };
  Session(comm::AuthenticatedConnection connection, Side side);

  void queue(const Message& message);
  // What the socket can take or give now.
  void advance();
  // Sends what can leave now, and reads nothing.
  void flush() { send_some(); }
  // Throws Corrupt for what is not the peer's, or no message.
  std::optional<Message> next();

  // For poll().
  pollfd watched() const;
  bool has_output() const { return !output_.empty(); }
  bool is_closed() const { return closed_; }
  const comm::Socket& socket() const { return connection_.socket; }
  const comm::Endpoint& from() const { return connection_.from; }

 private:
  void send_some();
  void receive_some();
  std::string sum(bool own, std::uint64_t number, std::string_view body) const;

  comm::AuthenticatedConnection connection_;
  Side side_;
  std::uint64_t sent_ = 0, received_ = 0;
  std::string output_, input_;
  bool closed_ = false;
};

}  // namespace lockstep::cluster::detail
