// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/data/detail/draw.h"
#include "lockstep/data/detail/order.h"

namespace lockstep::data {

namespace detail {

std::uint64_t epoch_word(std::uint64_t seed, std::int64_t epoch, std::uint32_t use,
                         std::uint64_t index) {
  const RandomKey key{seed ^ kOrderStream, static_cast<std::uint32_t>(epoch), 0, use};
  const auto words = philox(key, static_cast<std::uint32_t>(index >> 1));
  const std::size_t at = (index & 1) * 2;
  return (std::uint64_t{words[at]} << 32) | words[at + 1];
}

// floor(bits * n / 2^64) for n up to 2^32: uniform to within n / 2^64, and never a second draw.
static std::uint64_t scaled(std::uint64_t bits, std::uint64_t n) {
  return ((bits >> 32) * n + (((bits & 0xffffffffu) * n) >> 32)) >> 32;
}

void shuffle(std::vector<std::int64_t>& values, std::uint64_t seed, std::int64_t epoch,
             std::uint32_t use) {
  for (std::size_t left = values.size(); left > 1; --left)
    std::swap(values[left - 1], values[scaled(epoch_word(seed, epoch, use, left), left)]);
}

std::vector<std::int64_t> counting(std::int64_t first, std::int64_t end) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(end - first));
  std::iota(order.begin(), order.end(), first);
  return order;
}

}  // namespace detail

namespace {

constexpr std::int64_t kMaxSize = std::int64_t{1} << 32;

void check_size(const char* what, std::int64_t size) {
  if (size < 0 || size > kMaxSize)
    throw InvalidArgument("sampler: {} is {}, expected 0 to {}", what, size, kMaxSize);
}

class SequentialSampler final : public Sampler {
 public:
  explicit SequentialSampler(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  std::vector<std::int64_t> epoch(std::int64_t) const override {
    return detail::counting(0, size_);
  }

 private:
  std::int64_t size_;
};

class RandomSampler final : public Sampler {
 public:
  RandomSampler(std::int64_t size, std::uint64_t seed) : size_(size), seed_(seed) {}
  std::int64_t size() const override { return size_; }
  std::vector<std::int64_t> epoch(std::int64_t number) const override {
    std::vector<std::int64_t> order = detail::counting(0, size_);
    detail::shuffle(order, seed_, number);
    return order;
  }

 private:
  std::int64_t size_;
  std::uint64_t seed_;
};

// The inverse of the cumulative distribution: each draw is one word and one binary search.
class WeightedSampler final : public Sampler {
 public:
  WeightedSampler(std::vector<double> sums, std::int64_t draws, std::uint64_t seed)
      : sums_(std::move(sums)), draws_(draws), seed_(seed) {}
  std::int64_t size() const override { return draws_; }
  std::vector<std::int64_t> epoch(std::int64_t number) const override {
    std::vector<std::int64_t> order(static_cast<std::size_t>(draws_));
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = draw(number, i);
    return order;
  }

 private:
  std::int64_t draw(std::int64_t epoch, std::uint64_t index) const {
    const std::uint64_t bits = detail::epoch_word(seed_, epoch, 0, index) >> 11;
    const double at = static_cast<double>(bits) * 0x1p-53 * sums_.back();
    // The product of tiny sums may round up to the last one, which is past every sample.
    return std::upper_bound(sums_.begin(), sums_.end() - 1, at) - sums_.begin();
  }

  std::vector<double> sums_;
  std::int64_t draws_;
  std::uint64_t seed_;
};

// Sums in place; a later equal sum is never drawn, so that weight 0 means never.
std::vector<double> cumulative(std::vector<double> weights) {
  double sum = 0.0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!(weights[i] >= 0.0) || std::isinf(weights[i]))
      throw InvalidArgument("weighted_sampler: weight {} is {}, expected a finite one from 0", i,
                            weights[i]);
    weights[i] = sum += weights[i];
  }
  if (!(sum > 0.0) || std::isinf(sum))
    throw InvalidArgument("weighted_sampler: the weights' sum is {}, expected above 0", sum);
  return weights;
}

}  // namespace

SamplerPtr sequential_sampler(std::int64_t size) {
  check_size("size", size);
  return std::make_shared<SequentialSampler>(size);
}

SamplerPtr random_sampler(std::int64_t size, std::uint64_t seed) {
  check_size("size", size);
  return std::make_shared<RandomSampler>(size, seed);
}

SamplerPtr weighted_sampler(std::vector<double> weights, std::int64_t draws, std::uint64_t seed) {
  check_size("draws", draws);
  return std::make_shared<WeightedSampler>(cumulative(std::move(weights)), draws, seed);
}

ShardSampler::ShardSampler(SamplerPtr sampler, std::int64_t global_batch, std::int64_t shards)
    : sampler_(std::move(sampler)), global_batch_(global_batch), shards_(shards) {
  if (sampler_ == nullptr) throw InvalidArgument("train: there is no sampler");
  if (global_batch < 1 || shards < 1 || global_batch % shards != 0)
    throw InvalidArgument("train: a global batch of {} cannot be dealt into {} shards",
                          global_batch, shards);
  if (sampler_->size() < global_batch)
    throw InvalidArgument("train: the set has {} samples, a global batch needs {}",
                          sampler_->size(), global_batch);
  steps_per_epoch_ = sampler_->size() / global_batch;
}

std::vector<std::int64_t> ShardSampler::samples(std::int64_t step, std::int64_t shard) {
  if (step < 0) throw InvalidArgument("sampler: step is {}, expected 0 or more", step);
  if (shard < 0 || shard >= shards_)
    throw InvalidArgument("sampler: shard is {}, expected 0 to {}", shard, shards_ - 1);
  const std::int64_t epoch = step / steps_per_epoch_;
  if (epoch != epoch_) {
    order_ = sampler_->epoch(epoch);
    epoch_ = epoch;
  }
  const std::int64_t count = global_batch_ / shards_;
  const auto first = order_.begin() + (step % steps_per_epoch_) * global_batch_ + shard * count;
  return {first, first + count};
}

}  // namespace lockstep::data
