// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "lockstep/base/error.h"

namespace lockstep::cluster::detail {

// While it lives, the signals that a launcher handles arrive by a file descriptor.
class SignalQueue {
 public:
  SignalQueue() {
    sigset_t handled;
    sigemptyset(&handled);
    for (int number : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&handled, number);
    if (!is_ignored(SIGHUP)) sigaddset(&handled, SIGHUP);  // nohup: a blocked one would arrive
    sigprocmask(SIG_BLOCK, &handled, &before_);
    // Where it is ignored, no child can be waited for.
    struct sigaction usual {};
    usual.sa_handler = SIG_DFL;
    sigaction(SIGCHLD, &usual, &children_before_);
    fd_ = signalfd(-1, &handled, SFD_NONBLOCK | SFD_CLOEXEC);
    const int error = errno;
    if (fd_ >= 0) return;
    restore();
    throw IoError("launch: signalfd: {}", std::strerror(error));
  }
  ~SignalQueue() {
    close(fd_);
    restore();
  }
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;

  int fd() const { return fd_; }
  const sigset_t& mask_before() const { return before_; }
  // One that asks to stop; a child's end only wakes poll().
  std::optional<int> next() const {
    signalfd_siginfo info;
    while (read(fd_, &info, sizeof info) == sizeof info)
      if (info.ssi_signo != SIGCHLD) return static_cast<int>(info.ssi_signo);
    return {};
  }

 private:
  void restore() const {
    sigaction(SIGCHLD, &children_before_, nullptr);
    sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  static bool is_ignored(int number) {
    struct sigaction now {};
    return sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
  }
  sigset_t before_;
  struct sigaction children_before_ = {};
  int fd_ = -1;
};

}  // namespace lockstep::cluster::detail
