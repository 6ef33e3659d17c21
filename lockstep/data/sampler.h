// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace lockstep::data {

// An order of samples for an epoch: a pure function of what it was made with and the epoch.
class Sampler {
 public:
  virtual ~Sampler() = default;
  virtual std::int64_t size() const = 0;
  virtual std::vector<std::int64_t> epoch(std::int64_t number) const = 0;
};

using SamplerPtr = std::shared_ptr<const Sampler>;

// Every sample once, in order.
SamplerPtr sequential_sampler(std::int64_t size);
// Every sample once, in a new random order each epoch.
SamplerPtr random_sampler(std::int64_t size, std::uint64_t seed);
// `draws` samples an epoch, with replacement, with probabilities in proportion to the weights.
SamplerPtr weighted_sampler(std::vector<double> weights, std::int64_t draws, std::uint64_t seed);

// Deals an epoch's order into global batches and those into shards, in order. The last samples
// that do not fill a global batch wait for another epoch. Not thread-safe: it keeps one epoch's
// order.
class ShardSampler {
 public:
  // Throws InvalidArgument when shards do not divide global_batch, or the set is smaller than one.
  ShardSampler(SamplerPtr sampler, std::int64_t global_batch, std::int64_t shards);
  std::int64_t steps_per_epoch() const { return steps_per_epoch_; }
  std::int64_t shards() const { return shards_; }
  std::int64_t global_batch() const { return global_batch_; }
  // The samples of one shard of step `step` (counted from the run's first).
  std::vector<std::int64_t> samples(std::int64_t step, std::int64_t shard);

 private:
  SamplerPtr sampler_;
  std::int64_t global_batch_;
  std::int64_t shards_;
  std::int64_t steps_per_epoch_;
  std::int64_t epoch_ = -1;
  std::vector<std::int64_t> order_;
};

}  // namespace lockstep::data
