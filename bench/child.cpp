// SPDX-License-Identifier: Apache-2.0
#include "bench/child.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "lockstep/base/error.h"

namespace lockstep::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kGrace{2000};

}  // namespace

Child::Child(const std::vector<std::string>& command) : program_(command.at(0)) {
  // A socket, not two pipes: writing to a child that has gone is then an error, not a signal.
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw IoError("{}: socketpair: {}", program_, std::strerror(errno));
  socket_ = ends[0];
  try {
    process_ = Process::start(command, {.input = ends[1], .output = ends[1]});
  } catch (const Error&) {
    close(ends[0]);
    close(ends[1]);
    throw;
  }
  close(ends[1]);
}

Child::~Child() {
  shutdown(socket_, SHUT_WR);
  process_.wait(kGrace);
  process_.end();
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

}  // namespace lockstep::bench
