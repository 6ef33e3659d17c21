// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <thread>

namespace lockstep::cli {

// While it lives, Ctrl-C and SIGTERM set a flag instead of ending the program; the second one ends
// it at once. Make it before the threads that shall not be interrupted: they inherit its mask.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  const std::atomic<bool>& asked() const { return asked_; }
  // What a shell shows for a program that this signal ended: 130 for Ctrl-C, 143 for SIGTERM.
  int exit_status() const { return 128 + signal_; }

 private:
  void watch(const std::stop_token& end);
  std::atomic<bool> asked_ = false;
  std::atomic<int> signal_ = 2;
  std::jthread watcher_;
};

}  // namespace lockstep::cli
