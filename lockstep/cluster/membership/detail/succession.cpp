// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/membership/detail/succession.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace lockstep::cluster::detail {
namespace {

using comm::Clock;

constexpr auto kLeastRejoinTime = std::chrono::seconds(5);

}  // namespace

void Succession::check_valid(const comm::Endpoint& endpoint) const {
  if (leadership_ && !leadership_->is_valid())
    throw Deposed(fmt::format("the coordinator at {} has lost its lease", to_string(endpoint)));
}

void Succession::record(bool tolerates_lost_servers, const std::string& failure) const {
  if (!leadership_ || !generations_.is_active()) return;
  JobRecord kept = generations_.record();
  kept.workers = roster_.size().workers;
  kept.servers = roster_.size().servers;
  kept.patience = options_.patience;
  kept.heartbeat = options_.heartbeat;
  kept.tolerates_lost_servers = tolerates_lost_servers;
  kept.failure = failure;
  kept.is_over = kept.is_over || !failure.empty();
  leadership_->write(std::move(kept));
}

void Succession::record(const std::string& name, const RegistryEntry& entry) const {
  if (leadership_) leadership_->write(name, entry);
}

void Succession::await_members() { rejoin_deadline_ = Clock::now() + rejoin_time(); }

std::chrono::milliseconds Succession::rejoin_time() const {
  return std::max<std::chrono::milliseconds>(kLeastRejoinTime, 2 * options_.heartbeat);
}

bool Succession::awaits_members() const {
  return rejoin_deadline_ != comm::Deadline::max() &&
         (generations_.awaits_workers() || !missing_servers().empty());
}

bool Succession::may_return(const Participant& one) const {
  return generations_.is_resumed() && !one.reported && rejoin_deadline_ != comm::Deadline::max() &&
         Clock::now() < rejoin_deadline_;
}

bool Succession::is_time_over() {
  if (Clock::now() < rejoin_deadline_) return false;
  rejoin_deadline_ = comm::Deadline::max();
  return true;
}

std::string Succession::why_lost() const {
  return fmt::format("it did not come to the job's new coordinator within {:.1f} s",
                     std::chrono::duration<double>(rejoin_time()).count());
}

std::vector<std::int64_t> Succession::missing_servers() const {
  std::vector<std::int64_t> missing;
  for (std::int64_t id = roster_.size().workers; id < roster_.size().members(); ++id)
    if (roster_.member(id) == nullptr) missing.push_back(id);
  return missing;
}

bool Succession::readmit(Participant& one, const Rejoin& rejoin) {
  if (rejoin.join.role == Role::worker) return generations_.readmit(one, rejoin);
  readmit_server(one, rejoin);
  return true;
}

void Succession::readmit_server(Participant& one, const Rejoin& rejoin) {
  for (const auto& before : roster_.participants())
    if (before->joined && before->id == rejoin.id) before->left = true, before->joined = false;
  one.id = rejoin.id;
  one.rank = static_cast<int>(one.id) - roster_.size().workers;
  one.joined = true;
}

}  // namespace lockstep::cluster::detail
