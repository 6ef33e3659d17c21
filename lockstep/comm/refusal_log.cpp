// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/refusal_log.h"

#include <fmt/format.h>

namespace lockstep::comm {
namespace {

constexpr std::size_t kMostKept = 8, kMostHosts = 16;

}  // namespace

void RefusalLog::add(const Endpoint& from, const std::string& why) {
  const std::lock_guard lock(mutex_);
  last_.push_back(fmt::format("{}: {}", to_string(from), why));
  if (last_.size() > kMostKept) last_.pop_front();
  ++count_;
  const bool is_known = counts_.contains(from.host) || counts_.size() == kMostHosts;
  if (!is_known) new_.push_back(last_.back());
  if (counts_.contains(from.host) || !is_known) ++counts_[from.host];
}

std::vector<std::string> RefusalLog::last() const {
  const std::lock_guard lock(mutex_);
  return {last_.begin(), last_.end()};
}

std::vector<std::string> RefusalLog::take_new() {
  const std::lock_guard lock(mutex_);
  return std::exchange(new_, {});
}

std::uint64_t RefusalLog::count() const {
  const std::lock_guard lock(mutex_);
  return count_;
}

std::string RefusalLog::counts_by_host() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  std::uint64_t others = count_;
  for (const auto& [host, count] : counts_) {
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", host, count);
    others -= count;
  }
  return others == 0 ? text : fmt::format("{}, others ({})", text, others);
}

}  // namespace lockstep::comm
