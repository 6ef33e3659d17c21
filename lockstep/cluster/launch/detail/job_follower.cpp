// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/launch/detail/job_follower.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::cluster::detail {
namespace {

constexpr auto kTry = std::chrono::seconds(5);  // to reach the store
constexpr auto kSayAgain = std::chrono::seconds(1);

}  // namespace

JobFollower::JobFollower(StoredJob job, std::chrono::milliseconds patience, Calls calls)
    : job_(std::move(job)), patience_(patience), calls_(std::move(calls)) {}

JobFollower::News JobFollower::look(comm::Deadline now, bool has_workers) {
  News news;
  if (!heard_) heard_ = now;
  try {
    ask_store(now, news);
  } catch (const Error& error) {
    if (!std::exchange(is_cut_off_, true))
      news.line = fmt::format(
          "the launcher does not reach the store, and goes on as long as the workers do: {}",
          error.what());
    if (is_heard_otherwise(has_workers)) heard_ = now;
  }
  if (news.state == State::goes_on && now > *heard_ + patience_)
    news.state = is_cut_off_ ? State::unknown : State::failed;
  return news;
}

void JobFollower::ask_store(comm::Deadline now, News& news) {
  news.record = job_.record(comm::Clock::now() + kTry);
  leader_ = job_.leader(comm::Clock::now() + kTry);
  if (news.record) record_ = news.record;
  if (news.record && news.record->is_over) news.state = State::over;
  if (leader_) heard_ = now;
  if (std::exchange(is_cut_off_, false)) news.line = "the launcher reaches the store again";
}

bool JobFollower::is_heard_otherwise(bool has_workers) const {
  return has_workers || (leader_ && calls_.answers(leader_->endpoint));
}

bool JobFollower::is_leaving(std::int64_t id) const {
  return record_ && std::count(record_->leaving.begin(), record_->leaving.end(), id) > 0;
}

void JobFollower::release(const std::vector<std::int64_t>& ids, comm::Deadline now) {
  if (!leader_ || is_cut_off_ || now < next_release_) return;
  for (const std::int64_t id : ids) {
    if (is_leaving(id)) continue;
    next_release_ = now + kSayAgain;
    try {
      calls_.dismiss(leader_->endpoint, id);
    } catch (const Error&) {
      // It is said again.
    }
  }
}

}  // namespace lockstep::cluster::detail
