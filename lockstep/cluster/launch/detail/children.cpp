// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/launch/detail/children.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lockstep/base/core_binding.h"
#include "lockstep/base/error.h"
#include "lockstep/base/process.h"

namespace lockstep::cluster::detail {
namespace {

// Of one worker in one turn: one that never stops talking must not keep us from all others. More
// than a pipe holds.
constexpr int kMostBlocks = 16;

struct Pipe {
  comm::Socket read, write;
};

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw IoError("launch: pipe: {}", std::strerror(errno));
  return {comm::Socket(ends[0]), comm::Socket(ends[1])};
}

// The terminal's Ctrl-C comes to the launcher alone, which passes it on. A worker that has our
// streams is not the terminal's foreground: to read there is an error, and not a stop without end.
StartOptions start_options(const ChildOptions& options, const Pipe& out, const Pipe& err) {
  StartOptions start;
  start.folder = options.folder;
  start.environment = options.environment;
  start.blocked = options.mask;
  start.own_group = true;
  start.death_signal = SIGKILL;
  if (options.is_ours) {
    start.ignored = {SIGTTIN, SIGTTOU};
  } else {
    start.input = kNoStream;
    start.output = out.write.fd();
    start.errors = err.write.fd();
  }
  return start;
}

// Since it was asked last, or it goes on now. The kernel tells of each stop once, so that one that
// is stopped for a moment whenever we look is not taken for one that stays so.
bool has_gone_on(pid_t process) {
  siginfo_t info{};
  const auto id = static_cast<id_t>(process);
  const bool is_new = ::waitid(P_PID, id, &info, WSTOPPED | WNOHANG) == 0 && info.si_pid == process;
  return is_new || !is_stopped(process);
}

}  // namespace

Children::~Children() {
  signal(SIGKILL);
  for (const Child& child : children_)
    if (child.running) {
      reaper_.remove(child.pid);
      ::waitpid(child.pid, nullptr, 0);
    }
  kill_orphans({reaper_.pid()});
}

std::vector<pid_t> Children::own_pids() const {
  std::vector<pid_t> pids{reaper_.pid()};
  for (const Child& child : children_)
    if (child.running) pids.push_back(child.pid);
  return pids;
}

void Children::start(ChildOptions options) {
  for (std::string& setting : reaper_.settings()) options.environment.push_back(std::move(setting));
  Pipe out = make_pipe(), err = make_pipe();
  const AffinityScope bound(options.processors);
  const pid_t pid = Process::start(options.command, start_options(options, out, err)).release();
  reaper_.add(pid);
  if (options.is_ours) out.read.close(), err.read.close();
  for (const comm::Socket* pipe : {&out.read, &err.read})
    if (*pipe) ::fcntl(pipe->fd(), F_SETFL, O_NONBLOCK);
  children_.push_back({options.id,
                       pid,
                       {std::move(out.read), std::move(err.read)},
                       true,
                       HeartbeatMonitor(longest_)});
}

void Children::signal(int number) {
  for (const int each : {number, SIGCONT})
    for (const Child& child : children_)
      if (child.running) ::kill(-child.pid, each);
}

void Children::kill(std::int64_t id) const {
  for (const Child& child : children_)
    if (child.running && child.id == id) ::kill(-child.pid, SIGKILL);
}

bool Children::are_running() const {
  return std::any_of(children_.begin(), children_.end(), [](auto& child) { return child.running; });
}

void Children::end_long_stopped() {
  for (Child& child : children_) {
    if (!child.running || !child.stopped.tick()) continue;
    if (has_gone_on(child.pid)) child.stopped.heard();
    if (child.stopped.is_late())
      kill_for(child,
               fmt::format("somebody stopped it (SIGSTOP), and it did not go on for {:.1f} s",
                           std::chrono::duration<double>(longest_).count()));
  }
}

void Children::end_stopped() {
  for (Child& child : children_)
    if (child.running && child.why.empty() && is_stopped(child.pid))
      kill_for(child, "somebody stopped it (SIGSTOP), and the others waited for it in vain");
}

void Children::kill_for(Child& child, std::string why) {
  child.why = std::move(why);
  ::kill(-child.pid, SIGKILL);
}

void Children::watch(std::vector<pollfd>& watched) const {
  for (const Child& child : children_)
    for (const comm::Socket& pipe : child.pipes)
      if (pipe) watched.push_back({pipe.fd(), POLLIN, 0});
}

void Children::advance() {
  for (Child& child : children_) read_pipes(child);
  for (Child& child : children_) reap(child);
  reap_orphans(own_pids());
}

void Children::read_pipes(Child& child) {
  char block[16384];
  for (int i = 0; i < 2; ++i)
    for (int blocks = 0; child.pipes[i] && blocks < kMostBlocks; ++blocks) {
      const ssize_t got = ::read(child.pipes[i].fd(), block, sizeof block);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) break;
      if (got > 0)
        listener_.output(child.id, i + 1, std::string_view(block, static_cast<std::size_t>(got)));
      else
        child.pipes[i].close();
    }
}

// What the worker started itself goes with it. Its number is its own until it is waited for, so no
// other group can be hit.
void Children::reap(Child& child) {
  siginfo_t info{};
  if (!child.running ||
      ::waitid(P_PID, static_cast<id_t>(child.pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid != child.pid)
    return;
  ::kill(-child.pid, SIGKILL);
  reaper_.remove(child.pid);
  int status = 0;
  ::waitpid(child.pid, &status, 0);
  child.running = false;
  read_pipes(child);
  for (comm::Socket& pipe : child.pipes) pipe.close();
  const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  listener_.end({.id = child.id,
                 .pid = child.pid,
                 .status = WIFEXITED(status) ? WEXITSTATUS(status) : 0,
                 .signal = signal,
                 .by_us = child.why,
                 .by_kernel = child.why.empty() ? why_killed(signal) : ""});
}

// The kernel counts before it kills. Each count explains one end.
std::string Children::why_killed(int signal) {
  if (signal != SIGKILL || count_memory_kills().value_or(0) <= memory_kills_) return {};
  ++memory_kills_;
  const std::string limits = memory_limits_text();
  return "memory ran out" + (limits.empty() ? "" : "; " + limits);
}

}  // namespace lockstep::cluster::detail
