// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/data/dataset.h"
#include "lockstep/data/sampler.h"

namespace lockstep::data {

using TokenNumbers = std::vector<std::int64_t>;

enum class PadSide { end, begin };

// Exactly `length` tokens: what is too long loses its end, what is too short gets `padding`.
TokenNumbers fit_length(std::span<const std::int64_t> tokens, std::int64_t length,
                        std::int64_t padding, PadSide side = PadSide::end);

// The smallest of the ascending `bounds` that holds `length`, or the last one.
std::int64_t bucket_bound(std::int64_t length, std::span<const std::int64_t> bounds);

// Orders in which each run of `batch` samples is of one bucket, the samples of a bucket and the
// runs in random order. What does not fill a run waits for another epoch.
SamplerPtr bucket_sampler(std::span<const std::int64_t> lengths, std::vector<std::int64_t> bounds,
                          std::int64_t batch, std::uint64_t seed);

// For language models: sample i is (x, y), int64 [length] each, y one token further on in the text
// than x. Windows begin every `stride` tokens (0: `length`, so that none overlap).
class TokenWindows final : public Dataset {
 public:
  // Throws InvalidArgument when the text has no window.
  TokenWindows(const TokenNumbers& tokens, std::int64_t length, std::int64_t stride = 0);
  std::int64_t size() const override { return size_; }
  Fields sample(std::int64_t index) const override;

 private:
  Tensor tokens_;
  std::int64_t length_, stride_, size_;
};

struct TextOptions {
  std::vector<std::int64_t> bounds = {100};  // lengths that texts are brought to: one for all, or
                                             // each to the smallest that holds it
  std::int64_t padding = 1;
  PadSide side = PadSide::end;
  std::vector<std::string> class_names = {};
};

// Texts with a class each: int64 [bound] and an int64 scalar.
class TextClassification final : public Dataset {
 public:
  // Throws InvalidArgument when there are not as many labels as texts, or a label is no class.
  TextClassification(std::vector<TokenNumbers> texts, std::vector<std::int64_t> labels,
                     TextOptions options);
  std::int64_t size() const override { return static_cast<std::int64_t>(texts_.size()); }
  Fields sample(std::int64_t index) const override;
  std::vector<std::string> class_names() const override { return options_.class_names; }
  // For bucket_sampler.
  std::vector<std::int64_t> lengths() const;

 private:
  std::vector<TokenNumbers> texts_;
  std::vector<std::int64_t> labels_;
  TextOptions options_;
};

}  // namespace lockstep::data
