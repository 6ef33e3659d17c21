// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/comm/socket.h"
#include "lockstep/comm/transports/shm.h"

namespace lockstep::comm::detail {

// How the ranks of a host come to share a file that has no name: rank 0 listens on a socket named
// after the job (abstract: it vanishes with its process), and hands the file to those who come. Who
// goes before all are there, is noticed by the end of its connection. Only processes of the same
// user are talked to.

// Rank 0's side. All calls throw Timeout or PeerLost, which name the rank that is missed.
class ShmHost {
 public:
  // Throws IoError.
  ShmHost(const ShmOptions& options, Deadline deadline);

  // Returns when everybody has said that they have mapped the file, and has been told so.
  void share(int file);
  // Tells those who are there, or come within a moment, why there will be no group.
  void send_away(const Error& error);

 private:
  struct Guest {
    Socket socket;
    int rank = -1;  // as long as it has not said
    bool has_mapped = false;
  };
  bool are_all(bool mapped) const;
  void wait(Deadline deadline) const;
  void let_in();
  void hear(Guest& guest, int file);
  void welcome(Guest& guest, int rank, int file);
  [[noreturn]] void give_up() const;

  const ShmOptions& options_;
  Deadline deadline_;
  Socket listener_;
  std::vector<Guest> guests_;
};

// Another rank's side.
class ShmGuest {
 public:
  ShmGuest(const ShmOptions& options, Deadline deadline);

  // The group's file, for the caller to close. Throws Timeout, PeerLost, or rank 0's own error.
  int take_file();
  // Tells rank 0 that this one has mapped it, and returns when all have.
  void await_all();

 private:
  void connect();
  // A file, or -1.
  int receive();

  const ShmOptions& options_;
  Deadline deadline_;
  Socket socket_;
};

}  // namespace lockstep::comm::detail
