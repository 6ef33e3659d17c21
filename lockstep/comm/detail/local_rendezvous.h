// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>

#include <deque>

#include "lockstep/comm/detail/local_link.h"

namespace lockstep::comm::detail {

// How a client and its server find out that they are on one host. The server listens on a UNIX
// socket whose name it tells those that have proved the secret; who reaches a socket of that name,
// of the same user, and can show the ticket that was given to it and what only the two ends of its
// authenticated connection know, is on the server's host. Then each hands its memory to the other.

inline constexpr std::size_t kLocalName = 32, kLocalTicket = 32, kLocalProof = 32;
// What each side's proof is of.
inline constexpr const char* kClientMemory = "the client's memory";
inline constexpr const char* kServerMemory = "the server's memory";

// What a client that has come says.
struct LocalVisitor {
  Socket socket;
  std::string ticket, proof;
  Socket file;  // of its memory
};

class LocalListener {
 public:
  // Who has not said what it has to within `patience` is sent away.
  explicit LocalListener(std::chrono::milliseconds patience);

  // Empty where there is none.
  const std::string& name() const { return name_; }
  void watch(std::vector<pollfd>& watched) const;
  // When to call accept() though nothing comes.
  Deadline next_deadline() const;
  // Those that are through. Never blocks.
  std::vector<LocalVisitor> accept();

 private:
  struct Candidate {
    Socket socket;
    Deadline deadline;
  };
  void accept_all();

  std::chrono::milliseconds patience_;
  std::string name_;
  Socket listener_;
  std::deque<Candidate> candidates_;
};

// The server's side: hands over a memory as large as the client's, which has at most `bytes`. Null
// where that cannot be.
std::unique_ptr<LocalLink> welcome_locally(LocalVisitor visitor, const std::string& proof,
                                           std::size_t bytes);

struct LocalProofs {
  std::string client, server;
};

// The client's side. Null where the server is on another host, or one of them has no memory to
// show.
std::unique_ptr<LocalLink> connect_locally(const std::string& name, const std::string& ticket,
                                           const LocalProofs& proofs, std::size_t bytes,
                                           Deadline deadline);

}  // namespace lockstep::comm::detail
