// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

// A process that others may look for later: its number alone may be another's by then.
struct ProcessMark {
  std::string host = {};
  std::int64_t pid = 0;    // 0: none
  std::int64_t start = 0;  // when it began, in the kernel's ticks since the machine did
  bool operator==(const ProcessMark&) const = default;
};

// Of a process of this host, and of this one.
ProcessMark mark_of(std::int64_t pid);
ProcessMark own_mark();

// "HOST PID START"; none where the text is no such.
std::string to_string(const ProcessMark& mark);
ProcessMark parse_mark(const std::string& text);

// elsewhere: on another host, where nobody can tell from here.
enum class ProcessState { running, stopped, gone, elsewhere };
ProcessState look_at_process(const ProcessMark& mark);

}  // namespace lockstep
