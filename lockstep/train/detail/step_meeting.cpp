// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/detail/step_meeting.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/kvstore/group_sum.h"

namespace lockstep::train::detail {

StepMeeting::StepMeeting(kvstore::Group& group, std::int64_t shards, ShardRange range, int threads)
    : group_(group), shards_(shards), own_(range.hi - range.lo), threads_(threads) {}

void StepMeeting::begin() {
  arrived_ = 0;
  error_ = nullptr;
}

void StepMeeting::fail(std::exception_ptr error) noexcept {
  const std::lock_guard lock(mutex_);
  if (!error_) error_ = std::move(error);
  changed_.notify_all();
}

// Whoever waits here waits for threads that compute: each of them ends, meets or fails.
void StepMeeting::take_turn(std::unique_lock<std::mutex>& lock) {
  changed_.wait(lock, [&] { return computing_ < threads_ || error_; });
  if (error_) std::rethrow_exception(error_);
  ++computing_;
}

void StepMeeting::end_turn() {
  --computing_;
  changed_.notify_all();
}

void StepMeeting::arrive(std::int64_t shard, std::span<const float> values,
                         std::unique_lock<std::mutex>& lock) {
  if (arrived_ == 0) rows_.assign(values.size() * static_cast<std::size_t>(shards_), 0.0F);
  check(rows_.size() == values.size() * static_cast<std::size_t>(shards_),
        "shards that meet at different places");
  std::copy(values.begin(), values.end(),
            rows_.begin() + static_cast<std::ptrdiff_t>(values.size()) * shard);
  const std::uint64_t own_round = round_;
  if (++arrived_ == own_) return add_up(lock);
  changed_.wait(lock, [&] { return round_ != own_round || error_; });
  if (round_ == own_round) std::rethrow_exception(error_);
}

// By the last one of this worker, while the others wait.
void StepMeeting::add_up(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  try {
    group_.gather({}, shards_, rows_);
    const std::size_t count = rows_.size() / static_cast<std::size_t>(shards_);
    std::vector<std::span<const float>> of_shards;
    for (std::size_t s = 0; s < static_cast<std::size_t>(shards_); ++s)
      of_shards.push_back(std::span(rows_).subspan(s * count, count));
    means_.resize(count);
    kvstore::sum_in_tree(of_shards, means_);
    for (float& mean : means_) mean /= static_cast<float>(shards_);
  } catch (...) {
    fail(std::current_exception());
    lock.lock();
    throw;
  }
  lock.lock();
  arrived_ = 0;
  ++round_;
  changed_.notify_all();
}

StepMeeting::Place::Place(StepMeeting& meeting, std::int64_t shard)
    : meeting_(meeting), shard_(shard), scope_(*this) {
  std::unique_lock lock(meeting_.mutex_);
  meeting_.take_turn(lock);
  computes_ = true;
}

StepMeeting::Place::~Place() {
  const std::lock_guard lock(meeting_.mutex_);
  if (computes_) meeting_.end_turn();
}

// The means stay until this shard, too, comes to the next meeting.
std::int64_t StepMeeting::Place::mean(std::span<float> values) {
  std::unique_lock lock(meeting_.mutex_);
  computes_ = false;
  meeting_.end_turn();
  meeting_.arrive(shard_, values, lock);
  meeting_.take_turn(lock);
  computes_ = true;
  std::copy(meeting_.means_.begin(), meeting_.means_.end(), values.begin());
  return meeting_.shards_;
}

}  // namespace lockstep::train::detail
