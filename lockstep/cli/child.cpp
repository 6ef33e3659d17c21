// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/child.h"

#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

#include "lockstep/base/error.h"

extern char** environ;

namespace lockstep::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kGrace{2000};

// It ends when nobody reads what it writes, whatever this process does then.
class UsualSignals {
 public:
  UsualSignals() {
    sigset_t usual;
    sigemptyset(&usual);
    sigaddset(&usual, SIGPIPE);
    sigaddset(&usual, SIGXFSZ);
    posix_spawnattr_init(&attributes_);
    posix_spawnattr_setsigdefault(&attributes_, &usual);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGDEF);
  }
  ~UsualSignals() { posix_spawnattr_destroy(&attributes_); }
  UsualSignals(const UsualSignals&) = delete;
  UsualSignals& operator=(const UsualSignals&) = delete;
  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_;
};

pid_t spawn(const std::vector<std::string>& command, int socket) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, socket, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, socket, STDOUT_FILENO);
  pid_t pid = -1;
  const UsualSignals signals;
  const int status = posix_spawnp(&pid, argv[0], &actions, signals.get(), argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (status != 0) throw IoError("{}: cannot be started: {}", command[0], std::strerror(status));
  return pid;
}

bool ended_within(pid_t pid, std::chrono::milliseconds grace) {
  const auto deadline = Clock::now() + grace;
  while (waitpid(pid, nullptr, WNOHANG) == 0) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace

Child::Child(const std::vector<std::string>& command) : program_(command.at(0)) {
  // A socket, not two pipes: writing to a child that has gone is then an error, not a signal.
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw IoError("{}: socketpair: {}", program_, std::strerror(errno));
  socket_ = ends[0];
  try {
    pid_ = spawn(command, ends[1]);
  } catch (const Error&) {
    close(ends[0]);
    close(ends[1]);
    throw;
  }
  close(ends[1]);
}

Child::~Child() {
  shutdown(socket_, SHUT_WR);
  if (!ended_within(pid_, kGrace)) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(socket_);
}

void Child::write_line(const std::string& line) {
  const std::string bytes = line + "\n";
  if (send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(bytes.size()))
    throw IoError("{}: ended before it was asked '{}'", program_, line);
}

std::optional<std::string> Child::read_line(std::chrono::milliseconds deadline) {
  const auto end = Clock::now() + deadline;
  for (;;) {
    if (const std::size_t at = unread_.find('\n'); at != std::string::npos) {
      std::string line = unread_.substr(0, at);
      unread_.erase(0, at + 1);
      return line;
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    pollfd waiting{socket_, POLLIN, 0};
    if (left.count() <= 0 || poll(&waiting, 1, static_cast<int>(left.count())) == 0)
      throw IoError("{}: said nothing for {} s", program_, deadline.count() / 1000);
    std::array<char, 4096> buffer{};
    const ssize_t got = recv(socket_, buffer.data(), buffer.size(), 0);
    if (got <= 0) return std::nullopt;
    unread_.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace lockstep::cli
