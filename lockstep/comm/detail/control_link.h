// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "lockstep/comm/authenticated_listener.h"

namespace lockstep::comm::detail {

// The authenticated connection beside a data connection. First each side says, signed, what the
// other needs to connect the data; then it carries heartbeats, and its end is the peer's end.
class ControlLink {
 public:
  enum class State { open, left, lost, silent };

  ControlLink(AuthenticatedConnection connection, std::chrono::milliseconds heartbeat,
              std::chrono::milliseconds silence);

  void send_signed(const std::string& bytes);
  // The other side's, of that length; nothing before it is there. Throws Corrupt.
  std::optional<std::string> take_signed(std::size_t length);
  // From now on heartbeats are sent and expected.
  void start_heartbeats();
  void say_goodbye();

  // Reads what has come and sends the heartbeat that is due.
  State look();
  // When there is something to do though nothing comes.
  Deadline next_look() const;
  // "no heartbeat for 10.2 s"
  std::string reason(State state) const;

  int fd() const { return connection_.socket.fd(); }
  const Endpoint& from() const { return connection_.from; }
  std::uint64_t label() const { return connection_.label; }

 private:
  void read();

  AuthenticatedConnection connection_;
  std::chrono::milliseconds heartbeat_, silence_;
  std::string received_;
  bool beats_ = false, left_ = false, closed_ = false;
  Deadline heard_ = Clock::now(), sent_ = Clock::now();
};

}  // namespace lockstep::comm::detail
