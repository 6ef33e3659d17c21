// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace lockstep {

struct ProcessOptions {
  std::string folder = ".";                    // where it runs
  std::chrono::milliseconds deadline{600000};  // it and what it started are ended then
  std::function<void()> waiting = {};          // called now and then; may throw, which ends it
};

struct ProcessResult {
  int status = 0;  // its exit status; 128 and the signal's number when a signal ended it
  std::string output;
  std::string errors;  // what it wrote to standard error
};

// Runs a program to its end; its standard input is empty. Throws NotFound when there is no such
// program, IoError when it cannot be started or is not done by the deadline.
ProcessResult run_process(const std::vector<std::string>& command,
                          const ProcessOptions& options = {});

}  // namespace lockstep
