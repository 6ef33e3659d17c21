// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/launch/detail/process_title.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <sstream>

#include "lockstep/base/process_stat.h"

namespace lockstep::cluster::detail {
namespace {

constexpr int kBegin = 48, kEnd = 49;  // of the words, among the fields of /proc/self/stat

// Where the kernel takes the command line from that it shows: in our own memory.
std::span<char> command_line() {
  std::istringstream fields(process_stat(::getpid()));
  std::uintptr_t begin = 0, end = 0;
  std::string skipped;
  for (int field = 3; field < kBegin; ++field) fields >> skipped;
  static_assert(kEnd == kBegin + 1);
  if (!(fields >> begin >> end) || begin == 0 || end <= begin) return {};
  return {reinterpret_cast<char*>(begin), end - begin};
}

}  // namespace

void set_process_title(const char* name, const std::string& title) {
  ::prctl(PR_SET_NAME, name);
  const std::span<char> words = command_line();
  if (words.empty()) return;
  std::fill(words.begin(), words.end(), '\0');
  std::memcpy(words.data(), title.data(), std::min(title.size(), words.size() - 1));
}

ThreadName::ThreadName(const char* name) {
  ::prctl(PR_GET_NAME, before_);
  ::prctl(PR_SET_NAME, name);
}

ThreadName::~ThreadName() { ::prctl(PR_SET_NAME, before_); }

}  // namespace lockstep::cluster::detail
