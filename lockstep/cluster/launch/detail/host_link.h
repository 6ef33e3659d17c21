// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/types.h>

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/process.h"
#include "lockstep/cluster/launch/agent.h"
#include "lockstep/cluster/launch/detail/frames.h"
#include "lockstep/cluster/launch/detail/outgoing.h"
#include "lockstep/comm/socket.h"

namespace lockstep::cluster::detail {

// A launcher's connection to the agent on one host. When it goes, so does the agent, with all that
// it started.
class HostLink {
 public:
  // An agent on this machine, in a process of its own that has our standard input and output. To be
  // made before any thread, and before other links: it must not hold their pipes.
  static HostLink fork_agent(const std::string& host, AgentOptions options, const sigset_t& mask);
  // `command`, such as ssh's, runs an agent. Where it cannot be started, why_closed() says so.
  static HostLink run_command(const std::string& host, const std::vector<std::string>& command,
                              const sigset_t& mask);
  ~HostLink();
  HostLink(HostLink&& other) noexcept;
  HostLink& operator=(HostLink&&) = delete;

  const std::string& host() const { return host_; }
  // From any thread.
  void send(const std::string& frame) { to_->send(frame); }
  void watch(std::vector<pollfd>& watched) const;
  // What the pipes can take or give now.
  void advance();
  // Nothing before the agent's mark. Throws Corrupt for what is no frame.
  std::optional<Frame> next();
  // A line that ssh itself said.
  std::optional<std::string> next_remark();

  // No frame will come any more.
  bool is_closed() const { return !from_; }
  // After is_closed: the signal that asked the agent to stop before it could say so; 0: none.
  int stopped_by();
  // Goes on if somebody has stopped it (SIGSTOP), the command or the agent of this machine.
  void wake() const;
  // After is_closed: "ssh: connect to host b port 22: Connection refused"
  std::string why_closed();
  // Tells the agent to end.
  void hang_up() { to_->close(); }
  // Lets the agent end by itself, for a moment.
  void close();

 private:
  HostLink(std::string host, Process process, comm::Socket to, comm::Socket from,
           comm::Socket remarks);
  bool wait_for_end(std::chrono::milliseconds longest);
  void read_from(comm::Socket& pipe, std::string& bytes);

  std::string host_;
  Process process_;
  std::optional<int> status_;
  std::unique_ptr<Outgoing> to_;
  comm::Socket from_, remarks_;
  std::string said_;
  std::deque<std::string> last_remarks_;
  bool marked_ = false;
  bool is_remote_ = false;  // reached by a command
  FrameReader reader_;
};

}  // namespace lockstep::cluster::detail
