// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/process.h"

namespace lockstep::bench {

// A process that one talks with line by line. Its standard input and output are ours; its standard
// error is the program's. It ends, at the latest by a signal, when this object does.
class Child {
 public:
  // Throws NotFound or IoError when the program cannot be started.
  explicit Child(const std::vector<std::string>& command);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Throws IoError when the child has gone.
  void write_line(const std::string& line);
  // Nothing at the end of its output. Throws IoError past the deadline.
  std::optional<std::string> read_line(std::chrono::milliseconds deadline);

 private:
  std::string program_;
  Process process_;
  int socket_ = -1;
  std::string unread_;
};

}  // namespace lockstep::bench
