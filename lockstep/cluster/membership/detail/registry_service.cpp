// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/membership/detail/registry_service.h"

#include <algorithm>

#include "lockstep/base/error.h"

namespace lockstep::cluster::detail {
namespace {

using comm::Clock;

constexpr std::ptrdiff_t kMostWaiting = 1024;  // of one member
constexpr auto kLongestWait = std::chrono::hours(24 * 365);

Message invalid(const InvalidArgument& error) {
  return Denied{.type = Denied::Type::invalid, .text = error.what()};
}

}  // namespace

void RegistryService::take(const comm::MessageEvent& request, const Put& put) try {
  const std::int64_t version = table_.put(put.name, put.bytes);
  record_(put.name, *table_.find(put.name));
  answer_(request, Entry{true, version, {}});
  pass_on(put.name);
} catch (const InvalidArgument& error) {
  answer_(request, invalid(error));
}

void RegistryService::take(const comm::MessageEvent& request, const CompareAndSet& compare) try {
  ComparedEntry result = table_.compare_and_set(compare.name, compare.expected, compare.bytes);
  if (result.won) record_(compare.name, *table_.find(compare.name));
  answer_(request, Entry{result.won, result.version, std::move(result.bytes)});
  if (result.won) pass_on(compare.name);
} catch (const InvalidArgument& error) {
  answer_(request, invalid(error));
}

void RegistryService::take(const comm::MessageEvent& request, const Get& get) try {
  RegistryTable::check_entry(get.name, "");
  const auto own = [&](const Waiting& one) { return one.request.peer.id == request.peer.id; };
  if (std::count_if(waiting_.begin(), waiting_.end(), own) >= kMostWaiting)
    throw InvalidArgument("registry: '{}': this member waits for {} names already", get.name,
                          kMostWaiting);
  const auto wait = std::clamp<std::chrono::milliseconds>(get.timeout, {}, kLongestWait);
  waiting_.push_back({request, get, Clock::now() + wait});
  pass_on(get.name);
  check_waiting();
} catch (const InvalidArgument& error) {
  answer_(request, invalid(error));
}

void RegistryService::pass_on(const std::string& name) {
  std::erase_if(waiting_, [&](const Waiting& one) {
    if (one.get.name != name) return false;
    const RegistryEntry* entry = table_.find(name, one.get.newer_than);
    if (entry != nullptr) answer_(one.request, Entry{true, entry->version, entry->bytes});
    return entry != nullptr;
  });
}

void RegistryService::check_waiting() {
  std::erase_if(waiting_, [&](const Waiting& one) {
    const std::optional<Denied> why = why_not(one);
    if (why) answer_(one.request, *why);
    return why.has_value();
  });
}

std::optional<Denied> RegistryService::why_not(const Waiting& waiting) const {
  const Get& get = waiting.get;
  const Participant* from = roster_.member(get.from);
  if (from != nullptr && from->left)
    return denied(
        get, Denied::Type::lost,
        fmt::format("registry: '{}' will not come: {} has left the job", get.name, from->title()));
  if (Clock::now() < waiting.deadline) return {};
  std::string text = table_.why_missing(get.name, get.newer_than, get.timeout);
  text += from == nullptr ? " by any member" : " by " + from->title();
  if (from != nullptr && from->is_late) text += ", which is not heard";
  return denied(get, Denied::Type::timeout, std::move(text));
}

Denied RegistryService::denied(const Get& get, Denied::Type type, std::string text) const {
  const Participant* from = roster_.member(get.from);
  if (from == nullptr) return {.type = type, .text = std::move(text)};
  return {type, from->join.role, from->rank, from->host, std::move(text)};
}

void RegistryService::forget(std::uint64_t peer) {
  std::erase_if(waiting_, [&](const Waiting& one) { return one.request.peer.id == peer; });
}

void RegistryService::answer_all(const Message& message) {
  for (const Waiting& one : std::exchange(waiting_, {})) answer_(one.request, message);
}

}  // namespace lockstep::cluster::detail
