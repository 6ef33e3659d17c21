// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/detail/message_thread.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <csignal>

namespace lockstep::comm::detail {

Waker::Waker() : event_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!event_) throw IoError("messages: no event descriptor: too many open files");
}

void Waker::wake() const {
  const std::uint64_t one = 1;
  static_cast<void>(::write(event_.fd(), &one, sizeof one) > 0);  // where it fails it is awake
}

void Waker::clear() const {
  std::uint64_t count = 0;
  static_cast<void>(::read(event_.fd(), &count, sizeof count) > 0);
}

namespace {

// No signal comes to this thread, nor to those that it makes, while it lives.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

std::jthread start_message_thread(const char* name,
                                  std::function<void(const std::stop_token&)> work) {
  const SignalsBlocked blocked;
  std::jthread thread(std::move(work));
  pthread_setname_np(thread.native_handle(), name);
  return thread;
}

}  // namespace lockstep::comm::detail
