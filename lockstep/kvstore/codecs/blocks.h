// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "lockstep/kvstore/codecs/codecs.h"

namespace lockstep::kvstore {

// Codecs that cut values into blocks of 1024, each with a step of its own: a block is the step and
// the same number of bytes. A block that is not all numbers has a NaN for its step.
class BlockCodec : public Codec {
 public:
  static constexpr std::size_t kBlock = 1024;

  std::size_t payload_bytes(std::size_t count) const final {
    return (count + kBlock - 1) / kBlock * (sizeof(float) + bytes_);
  }
  std::size_t grain() const final { return kBlock; }
  bool is_rounding() const final { return false; }
  void encode(std::span<const float> values, std::span<float> residual,
              std::span<std::byte> payload) const final;
  void decode_add(std::span<const std::byte> payload, std::span<float> target) const final;

 protected:
  BlockCodec(const char* name, std::size_t bytes_of_block) : name_(name), bytes_(bytes_of_block) {}

  // Of `sums`, gradient and residual together, of which `count` are there and the rest is 0;
  // `total` is that of their sizes. Writes the rest into `residual` and returns the step.
  virtual float encode_block(const float* sums, float total, std::size_t count, float* residual,
                             std::uint8_t* bytes) const = 0;
  virtual void decode_block(const std::uint8_t* bytes, float step, float* target) const = 0;

 private:
  void encode_one(const float* values, float* residual, std::size_t count, std::byte* block) const;
  void decode_one(const std::byte* block, std::span<float> target) const;

  const char* name_;
  std::size_t bytes_;
};

}  // namespace lockstep::kvstore
