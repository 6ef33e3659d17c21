// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>

#include <deque>
#include <optional>
#include <vector>

#include "lockstep/comm/handshake.h"
#include "lockstep/comm/socket.h"

namespace lockstep::comm {

// A connection whose two ends have proved to each other that they know the job's secret.
struct Visitor {
  Socket socket;
  Endpoint from;
  std::uint64_t label = 0;
  std::string session_key = {};
};

// Listens, and lets in those that know the secret. Who is slow, silent or sends garbage costs the
// others nothing: each newcomer has a deadline of its own and nobody is waited for.
class Gate {
 public:
  // Throws IoError as listen_on does.
  Gate(const Endpoint& at, std::string secret,
       std::chrono::milliseconds patience = std::chrono::seconds(5));

  Endpoint endpoint() const { return local_endpoint(listener_); }
  // Appends what poll() should watch for.
  void watch(std::vector<pollfd>& watched) const;
  // Those that are through by now. Never blocks.
  std::vector<Visitor> admit();
  // The last few that were turned away, and why.
  const std::deque<std::string>& refusals() const { return refusals_; }

 private:
  struct Newcomer {
    Socket socket;
    Endpoint from;
    Handshake handshake;
    std::string received;
    Deadline deadline;
  };
  void accept_all();
  // False when the newcomer is to be forgotten.
  bool move_on(Newcomer& newcomer, std::vector<Visitor>& admitted);
  void turn_away(const Endpoint& from, const std::string& why);

  Socket listener_;
  std::string secret_;
  std::chrono::milliseconds patience_;
  std::deque<Newcomer> newcomers_;
  std::deque<std::string> refusals_;
};

// Connects and proves the secret; tries again and again while nobody listens there. `source` is the
// address to connect from, or empty. Throws Refused or Corrupt at once, Timeout at the deadline;
// `what` begins their messages.
Visitor knock(const Endpoint& at, const std::string& source, const std::string& secret,
              std::uint64_t label, Deadline deadline, const std::string& what);

}  // namespace lockstep::comm
