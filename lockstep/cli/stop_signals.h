// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <csignal>
#include <thread>

namespace lockstep::cli {

// While it lives, Ctrl-C, SIGTERM and SIGHUP come to a thread of its own. Until hold() they end the
// program at once; from then on the first one sets a flag, and the second ends the program. Make it
// before all other threads, those of libraries too: they inherit its mask, and one without it would
// be ended by the signal, and the program with it.
class StopSignals {
 public:
  // is_launched: whoever launched this process ends it if it does not stop. Where a whole session
  // or service is ended, the signal comes from there and from the launcher: two of them are one
  // wish.
  explicit StopSignals(bool is_launched);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  void hold() { holds_ = true; }
  const std::atomic<bool>& asked() const { return asked_; }
  // From now on SIGTERM from anybody but the agent that started this process is for this worker
  // alone: it is to leave. Whoever ends a whole session or service sends it to the launcher too,
  // which says so to all soon: then the job is to stop.
  void let_leave() { may_leave_ = true; }
  // Any of these signals is for this worker alone: nobody launched it.
  void leave_on_any() { leaves_on_any_ = true; }
  const std::atomic<bool>& asked_to_leave() const { return asked_to_leave_; }
  // As if that signal had come. From any thread.
  void ask(int signal);
  // The one that asked; 0: none did.
  int signal() const { return signal_ == 0 && asked_to_leave_ ? SIGTERM : signal_.load(); }

 private:
  void watch(const std::stop_token& end);
  void take(int signal);
  bool is_launched_;
  std::atomic<bool> holds_ = false;
  std::atomic<bool> asked_ = false;
  std::atomic<bool> may_leave_ = false, leaves_on_any_ = false, asked_to_leave_ = false;
  std::atomic<int> signal_ = 0;
  std::jthread watcher_;
};

// For the time before and after: these signals end the program with status 128 and their number,
// and not by the signal itself.
void end_on_stop_signals();

}  // namespace lockstep::cli
