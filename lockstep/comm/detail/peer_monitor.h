// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/comm/bootstrap.h"
#include "lockstep/comm/socket.h"

namespace lockstep::comm::detail {

// Connections between all ranks that carry no data: they say that a peer lives, that it aborted
// and why, or that it left in peace. The system closes a dead process's end at once, so its peers
// know in no time whatever library moves the data.
class PeerMonitor {
 public:
  // `sockets` by rank, as of connect_mesh.
  PeerMonitor(const Bootstrap& bootstrap, std::vector<Socket> sockets);
  // Says goodbye.
  ~PeerMonitor();

  // Throws Aborted when anybody did, PeerLost when a peer died. A peer that left in peace is lost
  // only for those who still want something from it: see has_left.
  void check(std::string_view operation);
  bool has_left(int rank) const { return peers_[static_cast<std::size_t>(rank)].left; }

  // Readable as soon as check() has something new to see.
  int fd() const { return epoll_.fd(); }

  // From any thread. False when there was one before.
  bool abort(const std::string& reason);

  // Wakes a peer that sleeps on its fd().
  void wake(int rank);

  // A peer's end of a data connection has closed. Why is known here, or will be soon.
  [[noreturn]] void explain_close(int rank, std::string_view operation, const std::string& why);
  // Those that the transport itself finds out about.
  [[noreturn]] void throw_lost(int rank, std::string_view operation, const std::string& why) const;
  // Asks those with whom a transfer is not done whom they wait for, and they the next: the one
  // that says nothing is to blame.
  [[noreturn]] void throw_timeout(std::span<const Transfer> transfers, std::string_view operation,
                                  Deadline begin);
  // The same where it is one peer that is waited for; `more` is what else is known.
  [[noreturn]] void throw_timeout(int peer, std::string_view operation, Deadline begin,
                                  const std::string& more = {});
  // What this rank answers to such a question.
  void wait_for(int rank) { waits_for_ = rank; }

  // What messages and errors call a rank.
  int name(int rank) const {
    return names_.empty() || rank < 0 ? rank : names_[static_cast<std::size_t>(rank)];
  }
  int rank() const { return rank_; }
  int size() const { return static_cast<int>(peers_.size()); }
  const std::string& host(int rank) const { return hosts_[static_cast<std::size_t>(rank)]; }

 private:
  struct Peer {
    Socket socket;
    std::string received = {};
    bool left = false, asked = false, answered = false;
  };
  void read_all();
  void read(std::size_t rank);
  // False when no whole message is there.
  bool take_message(std::size_t rank);
  void take_abort(int from, const std::string& text);
  // False when there was one before. Under the lock.
  bool note_abort(int by, const std::string& reason);
  void ask(int rank);
  void answer(Peer& peer);
  int find_silent(std::string_view operation);
  void send(Peer& peer, const std::string& message);
  void forget(Peer& peer);
  void tell_all(const std::string& message);

  int rank_;
  std::vector<std::string> hosts_;
  std::vector<int> names_;
  std::vector<Peer> peers_;
  Socket epoll_, wake_;
  std::mutex sending_;
  std::atomic<bool> aborted_{false};
  std::string reason_;  // guarded by sending_
  int aborted_by_ = -1, lost_ = -1, waits_for_ = -1;
};

// Throws InvalidArgument when a transfer names a rank that is not there, or this one.
void check_transfers(std::span<const Transfer> transfers, int rank, int size,
                     std::string_view operation);

}  // namespace lockstep::comm::detail
