// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>

#include <deque>
#include <functional>
#include <vector>

#include "lockstep/comm/handshake.h"
#include "lockstep/comm/refusal_log.h"
#include "lockstep/comm/socket.h"

namespace lockstep::comm {

// A connection whose two ends have proved to each other that they know the job's secret.
struct AuthenticatedConnection {
  Socket socket;
  Endpoint from;
  std::uint64_t label = 0;
  std::string session_key = {};
};

// Listens, and lets in those that know the secret. Who is slow, silent or sends garbage costs the
// others nothing: each candidate has a deadline of its own and nobody is waited for.
class AuthenticatedListener {
 public:
  // Throws IoError as listen_on does.
  AuthenticatedListener(const Endpoint& at, std::string secret,
                        std::chrono::milliseconds handshake_timeout = std::chrono::seconds(5),
                        const PortRange& ports = {});

  Endpoint endpoint() const { return local_endpoint(listener_); }
  // Appends what poll() should watch for.
  void watch(std::vector<pollfd>& watched) const;
  // When to call accept() though nothing comes: somebody's time will be over, or there may be room.
  Deadline next_deadline() const {
    const Deadline room = is_full() ? full_until_ : Deadline::max();
    return candidates_.empty() ? room : std::min(room, candidates_.front().deadline);
  }
  // Those that are through by now. Never blocks.
  std::vector<AuthenticatedConnection> accept();
  // Who was turned away.
  RefusalLog& refusals() { return refusals_; }

 private:
  struct Candidate {
    Socket socket;
    Endpoint from;
    Handshake handshake;
    std::string received;
    Deadline deadline;
  };
  bool is_full() const { return Clock::now() < full_until_; }
  Socket accept_one();
  void accept_all();
  void drop_oldest();
  // False when the candidate is to be forgotten.
  bool advance(Candidate& candidate, std::vector<AuthenticatedConnection>& accepted);

  Socket listener_;
  std::string secret_;
  std::chrono::milliseconds handshake_timeout_;
  std::deque<Candidate> candidates_;
  Deadline full_until_ = {};  // no file can be opened: nobody is looked for
  RefusalLog refusals_;
};

// Connects and proves the secret; tries again and again while nobody listens there. `source` is the
// address to connect from, or empty. Throws Refused or Corrupt at once, Timeout at the deadline;
// `what` begins their messages. `check` is called every now and then: what it throws ends it too.
AuthenticatedConnection connect_authenticated(const Endpoint& at, const std::string& source,
                                              const std::string& secret, std::uint64_t label,
                                              Deadline deadline, const std::string& what,
                                              const std::function<void()>& check = {});

}  // namespace lockstep::comm
