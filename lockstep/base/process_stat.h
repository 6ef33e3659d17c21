// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/core.h>
#include <sys/types.h>

#include <fstream>
#include <string>

namespace lockstep {

// The fields of /proc/PID/stat from the third on, "S 1 ...": a letter for its state, its parent,
// and so on. Those before hold its name, which may have blanks and brackets. Empty: it is gone.
inline std::string process_stat(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos || name_end + 4 >= line.size()) return {};
  return line.substr(name_end + 2);
}

}  // namespace lockstep
