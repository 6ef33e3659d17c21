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
    for (int number : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&handled, number);
    sigprocmask(SIG_BLOCK, &handled, &before_);
    fd_ = signalfd(-1, &handled, SFD_NONBLOCK | SFD_CLOEXEC);
    if (fd_ < 0) throw IoError("launch: signalfd: {}", std::strerror(errno));
  }
  ~SignalQueue() {
    close(fd_);
    sigprocmask(SIG_SETMASK, &before_, nullptr);
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
  sigset_t before_;
  int fd_ = -1;
};

}  // namespace lockstep::cluster::detail
