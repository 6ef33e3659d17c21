// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lockstep/comm/socket.h"
#include "lockstep/comm/transports/shm.h"

namespace lockstep::comm::detail {

// How the ranks of a host come to share a file that has no name: rank 0 listens on a socket named
// after the group (abstract: it vanishes with its process), and hands the file to those who come.
// Who goes before all are there says why, or is noticed by the end of its connection; the others
// receive_from the same. Only processes of the same user are talked to.

// Rank 0's side.
class ShmRendezvousServer {
 public:
  // Throws IoError.
  ShmRendezvousServer(const ShmOptions& options, Deadline deadline);

  // Returns when everybody has said that they have mapped the file, and has been told so. Throws
  // Timeout or PeerLost, which name the rank that is missed, what another rank left with, IoError.
  void share(int file);
  // Tells those who are there, or come within a moment, why there will be no group.
  void refuse_all(const Error& error);

 private:
  struct Peer {
    Socket socket;
    int rank = -1;  // as long as it has not said
    bool has_mapped = false;
  };
  bool have_all_mapped() const;
  void wait(Deadline deadline) const;
  int accept_all();
  void receive_from(Peer& peer, int file);
  void send_file(Peer& peer, int rank, int file);
  const Peer* find(int rank) const;
  [[noreturn]] void give_up() const;

  const ShmOptions& options_;
  Deadline deadline_;
  Socket listener_;
  Socket spare_;  // closed to have room for those who are sent away
  std::vector<Peer> peers_;
};

// Another rank's side.
class ShmRendezvousClient {
 public:
  ShmRendezvousClient(const ShmOptions& options, Deadline deadline);

  // The group's file, for the caller to close. Throws Timeout, PeerLost, IoError, or what rank 0
  // gave up for.
  int take_file();
  // Tells rank 0 that this one has mapped it, and returns when all have. `missing` is a rank to
  // name when they have not in time.
  void await_all(const std::function<int()>& missing);
  // Tells rank 0, and it all others, why this one goes.
  void leave(const Error& error);

 private:
  void connect();
  // A file, or -1.
  int receive(const std::function<int()>& missing);

  const ShmOptions& options_;
  Deadline deadline_;
  Socket socket_;
};

}  // namespace lockstep::comm::detail
