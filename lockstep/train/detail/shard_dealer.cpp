// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/detail/shard_dealer.h"

#include <algorithm>
#include <utility>

namespace lockstep::train::detail {
namespace {

constexpr int kUnsteadySteps = 2;    // the first ones make what the others use
constexpr int kWindow = 8;           // steps that are looked at together
constexpr double kWorthwhile = 0.9;  // of the time that a step takes now

double longest(std::span<const double> seconds, std::span<const std::int64_t> shares) {
  double most = 0.0;
  for (std::size_t r = 0; r < shares.size(); ++r)
    most = std::max(most, seconds[r] * static_cast<double>(shares[r]));
  return most;
}

}  // namespace

// One after the other, each shard goes to whoever would be done with it first. The last shard of
// all could not be done earlier by anybody, so no deal is faster.
std::vector<std::int64_t> deal_by_speed(std::int64_t shards, std::span<const double> seconds) {
  std::vector<std::int64_t> shares(seconds.size(), 1);
  const auto done_at = [&](std::size_t r) {
    return seconds[r] * static_cast<double>(shares[r] + 1);
  };
  for (auto left = shards - std::ssize(shares); left > 0; --left) {
    std::size_t first = 0;
    for (std::size_t r = 1; r < shares.size(); ++r)
      if (done_at(r) < done_at(first)) first = r;
    ++shares[first];
  }
  return shares;
}

ShardDealer::ShardDealer(std::int64_t shards, std::vector<std::int64_t> shares)
    : shards_(shards), shares_(std::move(shares)), sums_(shares_.size(), 0.0) {}

std::optional<std::vector<std::int64_t>> ShardDealer::add(std::span<const double> seconds) {
  if (++seen_ <= kUnsteadySteps) return {};
  for (std::size_t r = 0; r < sums_.size(); ++r) sums_[r] += seconds[r];
  if (seen_ < kUnsteadySteps + kWindow) return {};
  std::vector<double> of_shard;
  for (std::size_t r = 0; r < sums_.size(); ++r)
    of_shard.push_back(sums_[r] / static_cast<double>(shares_[r]));
  seen_ = kUnsteadySteps;
  std::fill(sums_.begin(), sums_.end(), 0.0);
  std::vector<std::int64_t> better = deal_by_speed(shards_, of_shard);
  if (longest(of_shard, better) > kWorthwhile * longest(of_shard, shares_)) return {};
  seen_ = 0;
  shares_ = better;
  return better;
}

}  // namespace lockstep::train::detail
