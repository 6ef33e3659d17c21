// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/machine_limits.h"
#include "lockstep/cluster/detail/heartbeat.h"
#include "lockstep/cluster/launch/detail/orphans.h"
#include "lockstep/cluster/launch/detail/reaper.h"
#include "lockstep/comm/socket.h"

namespace lockstep::cluster::detail {

struct ChildOptions {
  std::int64_t id = 0;
  std::vector<std::string> command = {};
  std::vector<std::string> environment = {};  // NAME=VALUE, besides our own
  std::string folder = {};                    // empty: ours
  bool is_ours = false;  // has our standard input and output; else empty input, and pipes
  sigset_t mask = {};
  std::vector<int> processors = {};  // that it runs on; empty: ours
};

// How a worker ended, and why where it did not do so by itself.
struct ChildEnd {
  std::int64_t id = 0;
  pid_t pid = 0;
  int status = 0, signal = 0;
  std::string by_us = {};
  std::string by_kernel = {};  // memory ran out
};

// Worker processes of this machine. Each has a process group of its own, which goes with it; none
// outlives this object, nor this process, which has no other children. What a worker has started
// and let go goes with this object.
class Children {
 public:
  struct Listener {
    std::function<void(std::int64_t id, int stream, std::string_view bytes)>
        output;  // stream: 1 or 2
    std::function<void(const ChildEnd& end)> end;
  };
  // When beat() is not called for longer than `deadline`, this process is taken for dead.
  Children(Listener listener, std::chrono::milliseconds deadline)
      : listener_(std::move(listener)), longest_(deadline), reaper_(deadline) {
    become_subreaper();
  }
  ~Children();
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  // Throws NotFound or IoError, which say what could not be started and why.
  void start(ChildOptions options);
  // One that is stopped (SIGSTOP) goes on, so that it hears of it.
  void signal(int number);
  // Ends one of them, at once.
  void kill(std::int64_t id) const;
  bool are_running() const;
  // Appends what poll() should watch for.
  void watch(std::vector<pollfd>& watched) const;
  // Tells the listener what there is. Never blocks.
  void advance();
  void beat() const { reaper_.beat(); }
  // To be called all the time: a worker that is stopped for longer than `deadline` is ended.
  void end_long_stopped();
  // What has happened to the reaper, if anything; there is another one then.
  std::optional<std::string> check_reaper() { return reaper_.replace_if_dead(); }
  // A worker that is stopped cannot end by itself: it is ended now.
  void end_stopped();

 private:
  struct Child {
    std::int64_t id = 0;
    pid_t pid = -1;
    comm::Socket pipes[2];  // its standard output and error
    bool running = true;
    HeartbeatMonitor stopped;
    std::string why = {};  // we ended it
  };
  void read_pipes(Child& child);
  void reap(Child& child);
  std::string why_killed(int signal);
  static void kill_for(Child& child, std::string why);
  std::vector<pid_t> own_pids() const;
  Listener listener_;
  std::chrono::milliseconds longest_;
  Reaper reaper_;
  std::vector<Child> children_;
  std::int64_t memory_kills_ = count_memory_kills().value_or(0);  // that are known
};

}  // namespace lockstep::cluster::detail
