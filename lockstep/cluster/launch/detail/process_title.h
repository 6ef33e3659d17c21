// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep::cluster::detail {

// What ps and top show of this process: at most 15 bytes of name, and the title in place of the
// command line, as far as that had room. For a process that was forked and never becomes another.
void set_process_title(const char* name, const std::string& title);

// While it lives, this thread has another name; the command line stays.
class ThreadName {
 public:
  explicit ThreadName(const char* name);
  ~ThreadName();
  ThreadName(const ThreadName&) = delete;
  ThreadName& operator=(const ThreadName&) = delete;

 private:
  char before_[16] = {};
};

}  // namespace lockstep::cluster::detail
