// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/stop_signals.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <optional>

namespace lockstep::cli {
namespace {

using Clock = std::chrono::steady_clock;

// How long the launcher may take to pass on what came to it too.
constexpr auto kLaunchersWord = std::chrono::milliseconds(300);

// Of the process that started this one for a launcher; -1: none did.
pid_t agent() {
  const char* value = std::getenv("LOCKSTEP_AGENT");
  return value == nullptr ? -1 : static_cast<pid_t>(std::atoi(value));
}

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
  std::optional<Clock::time_point> leaves_at;
  while (!end.stop_requested()) {
    siginfo_t info{};
    const int signal = sigtimedwait(&set, &info, &pause);
    if (leaves_at && Clock::now() > *leaves_at && !asked_) asked_to_leave_ = true;
    if (signal <= 0) continue;
    if (!holds_) _exit(128 + signal);
    const bool is_own = may_leave_ && (leaves_on_any_ || signal == SIGTERM);
    if (!is_own || asked_ || info.si_pid == agent())
      take(signal);
    else if (leaves_on_any_ && leaves_at && signal == SIGINT)
      _exit(128 + signal);  // whoever presses Ctrl-C twice is in a hurry
    else
      leaves_at = leaves_at.value_or(Clock::now() + kLaunchersWord);
  }
}

void StopSignals::take(int signal) {
  // A session that ends may say so after SIGTERM or before it.
  if (asked_ && !is_launched_ && signal != SIGHUP && signal_ != SIGHUP) _exit(128 + signal);
  ask(signal);
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
