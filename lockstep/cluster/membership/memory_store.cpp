// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/membership/memory_store.h"

#include <algorithm>

#include "lockstep/base/error.h"

namespace lockstep::cluster {

void MemoryStore::end_lease(std::int64_t id) {
  leases_.erase(id);
  std::erase_if(entries_, [&](const auto& one) { return one.second.lease == id; });
}

void MemoryStore::end_leases() {
  const comm::Deadline now = now_();
  std::vector<std::int64_t> ended;
  for (const auto& [id, until] : leases_)
    if (until <= now) ended.push_back(id);
  for (const std::int64_t id : ended) end_lease(id);
}

std::optional<StoreEntry> MemoryStore::get(const std::string& name, comm::Deadline /*deadline*/) {
  const std::lock_guard lock(mutex_);
  end_leases();
  const auto found = entries_.find(name);
  if (found == entries_.end()) return {};
  return found->second.entry;
}

std::vector<StoreEntry> MemoryStore::list(const std::string& prefix, comm::Deadline /*deadline*/) {
  const std::lock_guard lock(mutex_);
  end_leases();
  std::vector<StoreEntry> found;
  for (const auto& [name, kept] : entries_)
    if (name.starts_with(prefix)) found.push_back(kept.entry);
  return found;
}

std::optional<std::int64_t> MemoryStore::commit(const StoreChange& change,
                                                comm::Deadline /*deadline*/) {
  const std::lock_guard lock(mutex_);
  end_leases();
  const auto holds = [this](const StoreChange::Condition& condition) {
    const auto found = entries_.find(condition.name);
    return condition.version == (found == entries_.end() ? 0 : found->second.entry.version);
  };
  if (!std::all_of(change.conditions.begin(), change.conditions.end(), holds)) return {};
  for (const StoreChange::Put& put : change.puts)
    if (put.lease != 0 && !leases_.contains(put.lease))
      throw IoError("store: memory: lease {} has ended", put.lease);
  ++last_version_;
  for (const StoreChange::Put& put : change.puts)
    entries_[put.name] = {{put.name, put.value, last_version_}, put.lease};
  return last_version_;
}

StoreLease MemoryStore::grant(std::chrono::milliseconds length, comm::Deadline /*deadline*/) {
  const std::lock_guard lock(mutex_);
  leases_[++last_lease_] = now_() + length;
  return {last_lease_, length};
}

bool MemoryStore::keep_alive(const StoreLease& lease, comm::Deadline /*deadline*/) {
  const std::lock_guard lock(mutex_);
  end_leases();
  const auto found = leases_.find(lease.id);
  if (found == leases_.end()) return false;
  found->second = now_() + lease.length;
  return true;
}

void MemoryStore::revoke(const StoreLease& lease, comm::Deadline /*deadline*/) {
  const std::lock_guard lock(mutex_);
  end_lease(lease.id);
}

}  // namespace lockstep::cluster
