// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/process_mark.h"

#include <fmt/core.h>
#include <unistd.h>

#include <sstream>

#include "lockstep/base/host_name.h"
#include "lockstep/base/process_stat.h"

namespace lockstep {
namespace {

struct Stat {
  char state = 0;  // 0: there is no such process
  std::int64_t start = 0;
};

Stat stat_of(std::int64_t pid) {
  std::istringstream fields(process_stat(static_cast<pid_t>(pid)));
  Stat stat;
  fields >> stat.state;
  std::string skipped;
  for (int i = 4; i < 22; ++i) fields >> skipped;
  fields >> stat.start;
  return stat;
}

}  // namespace

ProcessMark mark_of(std::int64_t pid) { return {own_host_name(), pid, stat_of(pid).start}; }

ProcessMark own_mark() { return mark_of(::getpid()); }

std::string to_string(const ProcessMark& mark) {
  return fmt::format("{} {} {}", mark.host, mark.pid, mark.start);
}

ProcessMark parse_mark(const std::string& text) {
  ProcessMark mark;
  std::istringstream words(text);
  if (!(words >> mark.host >> mark.pid >> mark.start)) return {};
  return mark;
}

ProcessState look_at_process(const ProcessMark& mark) {
  if (mark.host != own_host_name()) return ProcessState::elsewhere;
  const Stat stat = stat_of(mark.pid);
  if (stat.state == 0 || stat.state == 'Z' || stat.state == 'X' || stat.start != mark.start)
    return ProcessState::gone;
  return stat.state == 'T' || stat.state == 't' ? ProcessState::stopped : ProcessState::running;
}

}  // namespace lockstep
