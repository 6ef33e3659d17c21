// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

// How a process ended.
struct ExitStatus {
  int code = 0;    // where no signal ended it
  int signal = 0;  // 0: it ended by itself

  // As a shell has it: 128 and the signal's number when a signal ended it.
  int shell() const { return signal == 0 ? code : 128 + signal; }
};

// A standard stream of a new process is a descriptor or one of these.
inline constexpr int kOurStream = -1, kNoStream = -2;

struct StartOptions {
  std::string folder = {};                    // where it runs; empty: ours
  std::vector<std::string> environment = {};  // NAME=VALUE, besides our own
  int input = kOurStream, output = kOurStream, errors = kOurStream;
  bool own_group = false;         // it is signalled with what it starts; Ctrl-C does not reach it
  int death_signal = 0;           // it gets this one when the thread that starts it ends
  sigset_t blocked = {};          // signals; none by default
  std::vector<int> ignored = {};  // signals. SIGPIPE and SIGXFSZ are as usual, else
};

struct ForkOptions {
  bool own_group = false;
  int death_signal = 0;
  int only_descriptor = -1;  // becomes its standard input, and all others are closed
};

// A process that we started. It ends with this object at the latest, by SIGKILL.
class Process {
 public:
  // Returns when the program runs. Throws NotFound where it or the folder is missing, IoError where
  // it cannot be started.
  static Process start(const std::vector<std::string>& command, const StartOptions& options = {});
  // A copy of this process that does `work`, whose result is its status; 1 when it throws. Where we
  // have other threads, `work` must do with what is safe in a signal handler.
  static Process fork(const std::function<int()>& work, const ForkOptions& options = {});

  Process() = default;  // none
  ~Process() { end(); }
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;

  pid_t pid() const { return pid_; }
  // To its group, where it has its own. Nothing happens when it has ended.
  void signal(int number) const;
  // Nothing while it runs.
  std::optional<ExitStatus> status();
  // Nothing when it still runs after `longest`.
  std::optional<ExitStatus> wait(std::chrono::milliseconds longest);
  // Ends it if it runs.
  void end();
  // The caller waits for it, and ends it.
  pid_t release();

 private:
  Process(pid_t pid, bool own_group) : pid_(pid), own_group_(own_group) {}

  pid_t pid_ = -1;
  bool own_group_ = false;
  std::optional<ExitStatus> status_;
};

struct ProcessOptions {
  std::string folder = ".";                    // where it runs
  std::chrono::milliseconds deadline{600000};  // it and what it started are ended then
  std::function<void()> waiting = {};          // called now and then; may throw, which ends it
};

struct ProcessResult {
  int status = 0;  // as a shell has it
  std::string output;
  std::string errors;  // what it wrote to standard error
};

// Runs a program to its end; its standard input is empty. Throws NotFound when there is no such
// program, IoError when it cannot be started or is not done by the deadline.
ProcessResult run_process(const std::vector<std::string>& command,
                          const ProcessOptions& options = {});

// Where this program is.
std::filesystem::path program_path();

}  // namespace lockstep
