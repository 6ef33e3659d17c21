// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/text/sequences.h"

#include <algorithm>

#include "lockstep/data/detail/order.h"

namespace lockstep::data {

namespace {

void check_bounds(const std::vector<std::int64_t>& bounds) {
  if (bounds.empty()) throw InvalidArgument("text: no length to bring texts to");
  std::int64_t last = 0;
  for (std::int64_t bound : bounds) {
    if (bound <= last)
      throw InvalidArgument("text: length {} follows {}, expected 1 or more and ascending", bound,
                            last);
    last = bound;
  }
}

std::size_t bucket_of(std::int64_t length, std::span<const std::int64_t> bounds) {
  const auto at = std::lower_bound(bounds.begin(), bounds.end(), length) - bounds.begin();
  return std::min(static_cast<std::size_t>(at), bounds.size() - 1);
}

class BucketSampler final : public Sampler {
 public:
  BucketSampler(std::span<const std::int64_t> lengths, std::span<const std::int64_t> bounds,
                std::int64_t batch, std::uint64_t seed)
      : buckets_(bounds.size()), batch_(batch), seed_(seed) {
    for (std::size_t i = 0; i < lengths.size(); ++i)
      buckets_[bucket_of(lengths[i], bounds)].push_back(static_cast<std::int64_t>(i));
    for (const auto& bucket : buckets_) runs_ += static_cast<std::int64_t>(bucket.size()) / batch;
  }

  std::int64_t size() const override { return runs_ * batch_; }

  std::vector<std::int64_t> epoch(std::int64_t number) const override {
    const std::vector<std::int64_t> runs = in_buckets(number);
    std::vector<std::int64_t> order = detail::counting(0, runs_), result;
    detail::shuffle(order, seed_, number, 0);
    for (std::int64_t run : order)
      result.insert(result.end(), runs.begin() + run * batch_, runs.begin() + (run + 1) * batch_);
    return result;
  }

 private:
  // Bucket after bucket, each in an order of its own and cut to whole runs.
  std::vector<std::int64_t> in_buckets(std::int64_t epoch) const {
    std::vector<std::int64_t> result;
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      std::vector<std::int64_t> bucket = buckets_[i];
      detail::shuffle(bucket, seed_, epoch, static_cast<std::uint32_t>(i + 1));
      const auto whole = static_cast<std::int64_t>(bucket.size()) / batch_ * batch_;
      result.insert(result.end(), bucket.begin(), bucket.begin() + whole);
    }
    return result;
  }

  std::vector<std::vector<std::int64_t>> buckets_;
  std::int64_t batch_;
  std::int64_t runs_ = 0;
  std::uint64_t seed_;
};

void check_sample(std::int64_t index, std::int64_t size) {
  if (index < 0 || index >= size)
    throw InvalidArgument("dataset: sample {} of {} samples", index, size);
}

}  // namespace

TokenNumbers fit_length(std::span<const std::int64_t> tokens, std::int64_t length,
                        std::int64_t padding, PadSide side) {
  if (length < 0) throw InvalidArgument("text: length is {}, expected 0 or more", length);
  const std::size_t kept = std::min(tokens.size(), static_cast<std::size_t>(length));
  TokenNumbers result(static_cast<std::size_t>(length), padding);
  const std::size_t first = side == PadSide::end ? 0 : result.size() - kept;
  std::copy_n(tokens.begin(), kept, result.begin() + static_cast<std::ptrdiff_t>(first));
  return result;
}

std::int64_t bucket_bound(std::int64_t length, std::span<const std::int64_t> bounds) {
  if (bounds.empty()) throw InvalidArgument("text: no length to bring texts to");
  return bounds[bucket_of(length, bounds)];
}

SamplerPtr bucket_sampler(std::span<const std::int64_t> lengths, std::vector<std::int64_t> bounds,
                          std::int64_t batch, std::uint64_t seed) {
  check_bounds(bounds);
  if (batch < 1) throw InvalidArgument("bucket_sampler: batch is {}, expected 1 or more", batch);
  return std::make_shared<BucketSampler>(lengths, bounds, batch, seed);
}

TokenWindows::TokenWindows(const TokenNumbers& tokens, std::int64_t length, std::int64_t stride)
    : length_(length), stride_(stride == 0 ? length : stride) {
  if (length < 1 || stride < 0)
    throw InvalidArgument("text: windows of {} tokens every {}, expected 1 or more", length,
                          stride);
  const auto count = static_cast<std::int64_t>(tokens.size());
  if (count <= length)
    throw InvalidArgument("text: has {} tokens, a window of {} and the token after it need {}",
                          count, length, length + 1);
  size_ = (count - 1 - length) / stride_ + 1;
  tokens_ = Tensor::from(tokens, {count});
}

Fields TokenWindows::sample(std::int64_t index) const {
  check_sample(index, size_);
  const std::int64_t first = index * stride_;
  return {tokens_.window({length_}, {1}, first), tokens_.window({length_}, {1}, first + 1)};
}

TextClassification::TextClassification(std::vector<TokenNumbers> texts,
                                       std::vector<std::int64_t> labels, TextOptions options)
    : texts_(std::move(texts)), labels_(std::move(labels)), options_(std::move(options)) {
  check_bounds(options_.bounds);
  if (texts_.size() != labels_.size())
    throw InvalidArgument("text: {} texts and {} labels, expected as many of each", texts_.size(),
                          labels_.size());
  const auto classes = static_cast<std::int64_t>(options_.class_names.size());
  for (std::size_t i = 0; i < labels_.size(); ++i)
    if (labels_[i] < 0 || (classes > 0 && labels_[i] >= classes))
      throw InvalidArgument("text: label {} of text {} is no class, there are {}", labels_[i], i,
                            classes);
}

Fields TextClassification::sample(std::int64_t index) const {
  check_sample(index, size());
  const auto at = static_cast<std::size_t>(index);
  const auto length = static_cast<std::int64_t>(texts_[at].size());
  const std::int64_t bound = bucket_bound(length, options_.bounds);
  const Tensor label = Tensor::from(std::span<const std::int64_t>(&labels_[at], 1), {});
  return {Tensor::from(fit_length(texts_[at], bound, options_.padding, options_.side), {bound}),
          label};
}

std::vector<std::int64_t> TextClassification::lengths() const {
  std::vector<std::int64_t> result;
  for (const TokenNumbers& text : texts_) result.push_back(static_cast<std::int64_t>(text.size()));
  return result;
}

}  // namespace lockstep::data
