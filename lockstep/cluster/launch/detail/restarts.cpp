// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/launch/detail/restarts.h"

#include <algorithm>

namespace lockstep::cluster::detail {
namespace {

constexpr int kWrongUsage = 2;

// Without the number of the worker before it.
std::string last_words(const MemberEnd& end) {
  std::string text = end.last_lines;
  while (!text.empty() && text.back() == '\n') text.pop_back();
  text = text.substr(text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1);
  const std::size_t prefix = text.find("] ");
  return text.starts_with('[') && prefix != std::string::npos ? text.substr(prefix + 2) : text;
}

}  // namespace

bool Restarts::is_program_error(const MemberEnd& end) {
  if (end.status == 0 || end.signal != 0 || !end.lost.empty()) return false;
  return end.status == kWrongUsage || ++said_[last_words(end)] > 1;
}

std::optional<Restarts::Time> Restarts::plan(std::size_t host, Time now) {
  if (count_ >= most_) return {};
  const int doublings = std::min(failures_, 10);
  const Time when = now + std::min(kLongestPause, kFirstPause * (1 << doublings));
  ++count_;
  ++failures_;
  due_.push_back({when, host});
  return when;
}

std::vector<std::size_t> Restarts::take_due(Time now) {
  std::vector<std::size_t> hosts;
  for (const Due& one : due_)
    if (one.when <= now) hosts.push_back(one.host);
  std::erase_if(due_, [&](const Due& one) { return one.when <= now; });
  return hosts;
}

}  // namespace lockstep::cluster::detail
