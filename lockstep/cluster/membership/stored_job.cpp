// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/membership/stored_job.h"

#include <thread>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/cluster/detail/fields.h"

namespace lockstep::cluster {
namespace {

constexpr const char *kLeader = "leader", *kRecord = "record";
constexpr auto kPause = std::chrono::milliseconds(100);

}  // namespace

StoredJob::StoredJob(std::shared_ptr<Store> store, std::string id)
    : store_(std::move(store)), prefix_("lockstep/" + std::move(id) + "/") {}

// "host:port token"
std::optional<Leader> StoredJob::leader(comm::Deadline deadline) const {
  const auto found = store_->get(name_of(kLeader), deadline);
  if (!found) return {};
  const std::size_t space = found->value.find(' ');
  if (space == std::string::npos)
    throw Corrupt("store: {}: '{}' says '{}', expected a coordinator", store_->name(), found->name,
                  found->value);
  return Leader{comm::parse_endpoint(found->value.substr(0, space)), found->value.substr(space + 1),
                found->version};
}

std::optional<JobRecord> StoredJob::record(comm::Deadline deadline) const {
  const auto found = store_->get(name_of(kRecord), deadline);
  if (!found) return {};
  return detail::from_bytes<JobRecord>(found->value);
}

Leader StoredJob::await_leader(std::chrono::milliseconds timeout) const {
  const auto deadline = comm::Clock::now() + timeout;
  while (true) {
    if (auto found = leader(deadline)) return *found;
    if (comm::Clock::now() + kPause >= deadline)
      throw comm::Timeout(
          fmt::format("store: {}: the job has had no coordinator for {:.1f} s", store_->name(),
                      std::chrono::duration<double>(timeout).count()),
          -1, "", "rendezvous");
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace lockstep::cluster
