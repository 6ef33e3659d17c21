// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "lockstep/comm/authenticated_listener.h"

namespace lockstep::comm::detail {

// The authenticated connection beside a data connection. First each side says, signed, what the
// other needs to connect the data; then it carries heartbeats, and its end is the peer's end. How
// long the peer is silent is counted in looks of our own: while this process is stopped, or its
// machine sleeps, nobody else is silent.
class ControlLink {
 public:
  enum class State { open, left, lost, silent };

  ControlLink(AuthenticatedConnection connection, std::chrono::milliseconds heartbeat,
              std::chrono::milliseconds silence);

  void send_signed(const std::string& bytes);
  // The other side's, of that length; nothing before it is there. Throws Corrupt.
  std::optional<std::string> take_signed(std::size_t length);
  // From now on heartbeats are sent, so often at least, and expected.
  void start_heartbeats(std::chrono::milliseconds at_least);
  void say_goodbye();
  // What only the two ends of this connection can say, of a text.
  std::string proof(std::string_view text) const;

  // Reads what has come and sends the heartbeat that is due.
  State look();
  // When there is something to do though nothing comes.
  Deadline next_look() const;
  // "no heartbeat for 10.2 s"
  std::string reason(State state) const;

  int fd() const { return connection_.socket.fd(); }
  Endpoint local() const { return local_endpoint(connection_.socket); }
  // The other side's address, whatever name it was found by.
  Endpoint remote() const { return peer_endpoint(connection_.socket); }
  const Endpoint& from() const { return connection_.from; }
  std::uint64_t label() const { return connection_.label; }

 private:
  void read();
  void take_heartbeats();
  std::string goodbye() const;

  AuthenticatedConnection connection_;
  std::chrono::milliseconds heartbeat_, silence_;
  std::string received_;
  bool beats_ = false, left_ = false, closed_ = false;
  Deadline looked_ = Clock::now(), sent_ = Clock::now();
  Clock::duration quiet_{0};  // since the peer was heard
};

}  // namespace lockstep::comm::detail
