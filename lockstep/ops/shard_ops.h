// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "lockstep/tensor/tensor.h"

namespace lockstep {

struct OpDef;

// Where the shards of a training step, each computed by a thread of its own, come together.
class ShardMeeting {
 public:
  virtual ~ShardMeeting() = default;
  // Every shard of the step calls it, in the same order, with as many values: they become their
  // means over all shards, which are added by the canonical tree. Returns how many shards there
  // are.
  virtual std::int64_t mean(std::span<float> values) = 0;
};

// This thread computes one of the shards that meet there. Scopes do not nest.
class ShardMeetingScope {
 public:
  explicit ShardMeetingScope(ShardMeeting& meeting);
  ~ShardMeetingScope();
  ShardMeetingScope(const ShardMeetingScope&) = delete;
  ShardMeetingScope& operator=(const ShardMeetingScope&) = delete;
  // This thread's; null: it computes all there is.
  static ShardMeeting* current();
};

struct ShardMeanResult {
  Tensor y;
  Tensor shards;  // how many there are, of x's dtype
};
// The mean of what the shards of a training step have, element by element; outside of one, x. In a
// step x is computed in float32 (a wider one is refused when it runs).
ShardMeanResult shard_mean(const Tensor& x);

const OpDef& shard_mean_op();

}  // namespace lockstep
