// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <exception>
#include <mutex>
#include <vector>

#include "lockstep/kvstore/group.h"
#include "lockstep/ops/shard_ops.h"

namespace lockstep::train::detail {

// Where the shards of a step meet whose net has statistics over the global batch. Each shard of
// this worker has a thread, of which so many compute at once: one that waits for the others lets
// another one go on.
class StepMeeting {
 public:
  // The group outlives it; nobody else uses it while shards compute.
  StepMeeting(kvstore::Group& group, std::int64_t shards, ShardRange range, int threads);

  // A step; what is left of one that failed counts for nothing. No shard computes.
  void begin();
  // A shard of this worker fails: those that wait for it, or will, fail alike.
  void fail(std::exception_ptr error) noexcept;

  // A shard that its thread computes as long as this lives.
  class Place final : public ShardMeeting {
   public:
    Place(StepMeeting& meeting, std::int64_t shard);
    ~Place() override;
    std::int64_t mean(std::span<float> values) override;

   private:
    StepMeeting& meeting_;
    std::int64_t shard_;
    bool computes_ = false;
    ShardMeetingScope scope_;
  };

 private:
  void take_turn(std::unique_lock<std::mutex>& lock);
  void end_turn();
  void arrive(std::int64_t shard, std::span<const float> values,
              std::unique_lock<std::mutex>& lock);
  void add_up(std::unique_lock<std::mutex>& lock);

  kvstore::Group& group_;
  std::int64_t shards_;
  std::int64_t own_;  // shards of this worker
  int threads_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int computing_ = 0;
  std::int64_t arrived_ = 0;
  std::uint64_t round_ = 0;
  std::exception_ptr error_;
  std::vector<float> rows_, means_;  // of this round: each shard's, and of all
};

}  // namespace lockstep::train::detail
