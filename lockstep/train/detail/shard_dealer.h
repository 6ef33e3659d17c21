// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace lockstep::train::detail {

// Shares of `shards` for workers that take so long for each shard: the last one to finish finishes
// as early as it can, and each has one shard or more.
std::vector<std::int64_t> deal_by_speed(std::int64_t shards, std::span<const double> seconds);

// Looks how long the workers of a generation compute, and says when other shares would pay. It is
// told the same on every worker, so that all decide alike and nobody has to ask.
class ShardDealer {
 public:
  // Shares by rank, as they are now.
  ShardDealer(std::int64_t shards, std::vector<std::int64_t> shares);

  // What the passes of a step took each worker. The shares from the next step on; nothing: they
  // stay.
  std::optional<std::vector<std::int64_t>> add(std::span<const double> seconds);

  const std::vector<std::int64_t>& shares() const { return shares_; }

 private:
  std::int64_t shards_;
  std::vector<std::int64_t> shares_;
  std::vector<double> sums_;
  int seen_ = 0;  // steps, since the shares changed
};

}  // namespace lockstep::train::detail
