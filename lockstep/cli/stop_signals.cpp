// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/stop_signals.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <ctime>

namespace lockstep::cli {
namespace {

sigset_t stop_set() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace

StopSignals::StopSignals() {
  const sigset_t set = stop_set();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  watcher_ = std::jthread([this](const std::stop_token& end) { watch(end); });
}

StopSignals::~StopSignals() {
  watcher_ = {};
  const sigset_t set = stop_set();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

// A blocked signal waits for sigtimedwait, so nothing here runs inside a handler.
void StopSignals::watch(const std::stop_token& end) {
  const sigset_t set = stop_set();
  const timespec pause{0, 50'000'000};
  while (!end.stop_requested()) {
    const int signal = sigtimedwait(&set, nullptr, &pause);
    if (signal <= 0) continue;
    if (!holds_ || asked_) _exit(128 + signal);
    signal_ = signal;
    asked_ = true;
  }
}

}  // namespace lockstep::cli
