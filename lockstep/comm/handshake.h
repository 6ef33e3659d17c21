// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/comm/errors.h"

namespace lockstep::comm {

// How two ends of a new connection prove to each other that they know the job's secret, without
// sending it: each answers the other's random challenge with an HMAC. The messages have fixed
// lengths, so that not a byte beyond the handshake is read. No sockets here: bytes in, bytes out.
//
//   listener  -> magic, challenge
//   connector -> magic, challenge, label, HMAC(secret, connector, both challenges, label)
//   listener  -> verdict, HMAC(secret, listener, both challenges, label)
class Handshake {
 public:
  enum class Role { listener, connector };
  // `label` is what a connector says of itself, a rank for example.
  Handshake(Role role, std::string secret, std::uint64_t label = 0);

  // To be sent now; empty when nothing is.
  std::string take_output();
  // The length of the message that feed() expects next; 0 when the handshake is over.
  std::size_t wanted() const;
  // Throws Refused when the secrets or the versions differ, Corrupt when these are not
  // Lockstep's bytes. What take_output() holds afterwards should still be sent.
  void feed(std::string_view message);

  std::uint64_t label() const { return label_; }
  // For this connection alone, known to both ends and to nobody else.
  std::string session_key() const;

 private:
  std::string proof(std::string_view who) const;
  void feed_challenge(std::string_view message);
  void feed_answer(std::string_view message);
  void feed_verdict(std::string_view message);

  enum class Stage { challenge, answer, verdict, over };
  Stage stage_;
  std::string secret_;
  std::uint64_t label_;
  std::string own_, theirs_;  // challenges
  std::string output_;
  bool listener_;
};

}  // namespace lockstep::comm
