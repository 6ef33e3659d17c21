// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/membership/local_registry.h"

#include <condition_variable>
#include <mutex>

#include "lockstep/cluster/membership/detail/registry_table.h"
#include "lockstep/comm/errors.h"

namespace lockstep::cluster {

struct LocalRegistry::Impl {
  std::mutex mutex;
  std::condition_variable changed;
  detail::RegistryTable table;
};

LocalRegistry::LocalRegistry() : impl_(std::make_unique<Impl>()) {}
LocalRegistry::~LocalRegistry() = default;

std::int64_t LocalRegistry::put(const std::string& name, const std::string& bytes,
                                std::chrono::milliseconds /*timeout*/) {
  const std::lock_guard lock(impl_->mutex);
  const std::int64_t version = impl_->table.put(name, bytes);
  impl_->changed.notify_all();
  return version;
}

RegistryEntry LocalRegistry::get(const std::string& name, std::chrono::milliseconds timeout,
                                 const RegistryWait& wait) {
  detail::RegistryTable::check_entry(name, "");
  std::unique_lock lock(impl_->mutex);
  const RegistryEntry* found = nullptr;
  const auto is_there = [&] {
    found = impl_->table.find(name, wait.newer_than);
    return found != nullptr;
  };
  if (impl_->changed.wait_for(lock, timeout, is_there)) return *found;
  throw comm::Timeout(impl_->table.why_missing(name, wait.newer_than, timeout), -1, "localhost",
                      "registry");
}

ComparedEntry LocalRegistry::compare_and_set(const std::string& name, std::int64_t expected_version,
                                             const std::string& bytes,
                                             std::chrono::milliseconds /*timeout*/) {
  const std::lock_guard lock(impl_->mutex);
  const ComparedEntry result = impl_->table.compare_and_set(name, expected_version, bytes);
  if (result.won) impl_->changed.notify_all();
  return result;
}

}  // namespace lockstep::cluster
