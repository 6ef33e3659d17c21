// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/membership/detail/registry_table.h"

#include <algorithm>

#include "lockstep/base/error.h"

namespace lockstep::cluster::detail {

// Names are shown to users.
void RegistryTable::check_entry(const std::string& name, const std::string& bytes) {
  if (name.empty() || name.size() > Registry::kLongestName)
    throw InvalidArgument("registry: a name of {} characters, expected 1 to {}", name.size(),
                          Registry::kLongestName);
  if (!std::all_of(name.begin(), name.end(), [](char one) { return one >= ' ' && one <= '~'; }))
    throw InvalidArgument("registry: a name with bytes that cannot be shown, expected ASCII");
  if (bytes.size() > Registry::kLongestValue)
    throw InvalidArgument("registry: '{}' has {} bytes, expected at most {}", name, bytes.size(),
                          Registry::kLongestValue);
}

void RegistryTable::check_room(const std::string& name, const std::string& bytes) const {
  check_entry(name, bytes);
  const RegistryEntry* old = find(name);
  if (old == nullptr && entries_.size() >= Registry::kMostNames)
    throw InvalidArgument("registry: '{}' is one name too many; it holds {}", name,
                          Registry::kMostNames);
  const std::size_t other = bytes_ - (old == nullptr ? 0 : name.size() + old->bytes.size());
  if (other + name.size() + bytes.size() > Registry::kMostBytes)
    throw InvalidArgument("registry: '{}' with {} bytes is too much; it holds {} in all", name,
                          bytes.size(), Registry::kMostBytes);
}

std::int64_t RegistryTable::put(const std::string& name, const std::string& bytes) {
  check_room(name, bytes);
  const auto [place, is_new] = entries_.try_emplace(name);
  RegistryEntry& entry = place->second;
  bytes_ += (is_new ? name.size() : 0) + bytes.size() - entry.bytes.size();
  entry.bytes = bytes;
  return ++entry.version;
}

void RegistryTable::restore(const std::string& name, const RegistryEntry& entry) {
  put(name, entry.bytes);
  entries_[name].version = entry.version;
}

ComparedEntry RegistryTable::compare_and_set(const std::string& name, std::int64_t expected_version,
                                             const std::string& bytes) {
  check_room(name, bytes);
  const RegistryEntry* there = find(name);
  if ((there == nullptr ? 0 : there->version) == expected_version)
    return {true, put(name, bytes), bytes};
  return there == nullptr ? ComparedEntry{} : ComparedEntry{false, there->version, there->bytes};
}

const RegistryEntry* RegistryTable::find(const std::string& name, std::int64_t newer_than) const {
  const auto found = entries_.find(name);
  return found == entries_.end() || found->second.version <= newer_than ? nullptr : &found->second;
}

std::string RegistryTable::why_missing(const std::string& name, std::int64_t newer_than,
                                       std::chrono::milliseconds waited) const {
  const double seconds = std::chrono::duration<double>(waited).count();
  if (newer_than > 0)
    return fmt::format("registry: '{}' got no version after {} within {:.1f} s", name, newer_than,
                       seconds);
  return fmt::format("registry: '{}' was not put within {:.1f} s", name, seconds);
}

}  // namespace lockstep::cluster::detail
