// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/stop_signals.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <ctime>

namespace lockstep::cli {
namespace {

bool is_ignored(int signal) {
  struct sigaction now {};
  return sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

// nohup: a terminal that closes does not matter.
sigset_t stop_set() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  if (!is_ignored(SIGHUP)) sigaddset(&set, SIGHUP);
  return set;
}

extern "C" void end_by(int signal) { _exit(128 + signal); }

}  // namespace

StopSignals::StopSignals(bool is_launched) : is_launched_(is_launched) {
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
    if (!holds_) _exit(128 + signal);
    // A session that ends may say so after SIGTERM or before it.
    if (asked_ && !is_launched_ && signal != SIGHUP && signal_ != SIGHUP) _exit(128 + signal);
    ask(signal);
  }
}

void StopSignals::ask(int signal) {
  if (!asked_) signal_ = signal;
  asked_ = true;
}

void end_on_stop_signals() {
  const sigset_t set = stop_set();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP})
    if (sigismember(&set, signal) == 1) ::signal(signal, end_by);
}

}  // namespace lockstep::cli
