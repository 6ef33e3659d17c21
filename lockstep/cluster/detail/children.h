// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/cluster/detail/adopted.h"
#include "lockstep/cluster/detail/keeper.h"
#include "lockstep/comm/socket.h"

namespace lockstep::cluster::detail {

struct ChildOptions {
  int rank = 0;
  std::vector<std::string> command = {};
  std::vector<std::string> environment = {};  // NAME=VALUE, besides our own
  std::string folder = {};                    // empty: ours
  bool is_ours = false;  // has our standard input and output; else empty input, and pipes
  sigset_t mask = {};
};

// Worker processes of this machine. Each has a process group of its own, which goes with it; none
// outlives this object, nor this process, which has no other children. What a worker has started
// and let go goes with this object.
class Children {
 public:
  struct Listener {
    std::function<void(int rank, int stream, std::string_view bytes)> output;  // stream: 1 or 2
    std::function<void(int rank, int status, int signal)> end;
  };
  // When reassure() is not called for longer than `silence`, this process is taken for dead.
  Children(Listener listener, std::chrono::milliseconds silence)
      : listener_(std::move(listener)), keeper_(silence) {
    adopt_orphans();
  }
  ~Children();
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  // Throws NotFound or IoError, which say what could not be started and why.
  void start(ChildOptions options);
  void signal(int number);
  // Appends what poll() should watch for.
  void watch(std::vector<pollfd>& watched) const;
  // Tells the listener what there is. Never blocks.
  void move_on();
  void reassure() const { keeper_.reassure(); }

 private:
  struct Child {
    int rank = 0;
    pid_t pid = -1;
    comm::Socket pipes[2];  // its standard output and error
    bool running = true;
  };
  void read_pipes(Child& child);
  void reap(Child& child);
  std::vector<pid_t> own_pids() const;
  Listener listener_;
  Keeper keeper_;
  std::vector<Child> children_;
};

}  // namespace lockstep::cluster::detail
