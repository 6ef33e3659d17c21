// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::testing {

// A forked process that runs a function; what the function returns, or its error, comes back.
class Child {
 public:
  explicit Child(const std::function<std::string()>& work) {
    int ends[2];
    check(::pipe(ends) == 0, "pipe");
    pid_ = ::fork();
    check(pid_ >= 0, "fork");
    if (pid_ == 0) {
      ::close(ends[0]);
      run(work, ends[1]);
    }
    ::close(ends[1]);
    pipe_ = ends[0];
  }
  ~Child() {
    if (pid_ > 0) {
      signal(SIGKILL);
      reap();
    }
    if (pipe_ >= 0) ::close(pipe_);
  }
  Child(Child&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)), pipe_(std::exchange(other.pipe_, -1)) {}
  Child& operator=(Child&&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const { ::kill(pid_, number); }

  // "Kind: message" for an error, "signal N" when one ended it, "hangs" when it is not done in
  // time.
  std::string result(std::chrono::milliseconds timeout = std::chrono::seconds(20)) {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    std::string text;
    while (true) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      pollfd waiting{pipe_, POLLIN, 0};
      if (left.count() <= 0 || ::poll(&waiting, 1, static_cast<int>(left.count())) == 0)
        return "hangs";
      char block[4096];
      const ssize_t got = ::read(pipe_, block, sizeof block);
      if (got <= 0) break;
      text.append(block, static_cast<std::size_t>(got));
    }
    const int status = reap();
    return WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status)) : text;
  }

 private:
  [[noreturn]] static void run(const std::function<std::string()>& work, int pipe) {
    std::string text;
    try {
      text = work();
    } catch (const Error& error) {
      text = std::string(error.kind()) + ": " + error.what();
    } catch (const std::exception& error) {
      text = std::string("exception: ") + error.what();
    }
    const bool written = ::write(pipe, text.data(), text.size()) >= 0;
    ::_exit(written ? 0 : 1);
  }
  int reap() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return status;
  }

  pid_t pid_ = -1;
  int pipe_ = -1;
};

}  // namespace lockstep::testing
