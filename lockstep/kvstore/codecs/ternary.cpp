// SPDX-License-Identifier: Apache-2.0
#include <bit>

#include "lockstep/base/vector_clones.h"
#include "lockstep/kvstore/codecs/blocks.h"

// Two bits a value with a step of each block's own, for those who do not know a threshold that fits
// all parameters and all of the run. Of 1024 values those of at least 0.7 of the mean size are
// sent, as plus or minus the mean of their sizes (Li et al. 2016, for weights); the rest waits in
// the residual. A block is the step and 16 rows of 16 bytes, each laid out as in two_bit.cpp.
namespace lockstep::kvstore {
namespace {

constexpr std::size_t kBlock = BlockCodec::kBlock;
constexpr std::size_t kRow = 64;
constexpr std::size_t kRowBytes = 16;
constexpr std::size_t kLanes = 16;

// In sixteen sums and then in order, so that a vector's width changes no bit. Choices are made by
// masks, which compilers turn into vectors; sizes compare as their bits do.
LOCKSTEP_VECTOR_CLONES float mean_from(const float* sums, float least) {
  const std::uint32_t limit = std::bit_cast<std::uint32_t>(least);
  float lanes[kLanes] = {};
  std::uint32_t counts[kLanes] = {};
  for (std::size_t i = 0; i < kBlock; i += kLanes)
    for (std::size_t j = 0; j < kLanes; ++j) {
      const std::uint32_t size = std::bit_cast<std::uint32_t>(sums[i + j]) & 0x7fffffffu;
      const std::uint32_t counted = size >= limit ? ~0u : 0u;
      lanes[j] += std::bit_cast<float>(size & counted);
      counts[j] += counted & 1u;
    }
  float total = 0.0f;
  std::uint32_t count = 0;
  for (std::size_t j = 0; j < kLanes; ++j) total += lanes[j], count += counts[j];
  return total / static_cast<float>(count);
}

LOCKSTEP_VECTOR_CLONES void encode_rows(const float* sums, float least, float step, float* residual,
                                        std::uint8_t* bytes) {
  const std::uint32_t limit = std::bit_cast<std::uint32_t>(least);
  const std::uint32_t sent = std::bit_cast<std::uint32_t>(step);
  std::uint32_t codes[kBlock];
  for (std::size_t i = 0; i < kBlock; ++i) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(sums[i]);
    const std::uint32_t sign = bits >> 31;
    const std::uint32_t sends = (bits & 0x7fffffffu) >= limit ? ~0u : 0u;
    codes[i] = sends & (1u + sign);
    residual[i] = sums[i] - std::bit_cast<float>(sends & (sent | sign << 31));
  }
  for (std::size_t row = 0; row < kBlock / kRow; ++row)
    for (std::size_t j = 0; j < kRowBytes; ++j) {
      const std::uint32_t* code = codes + row * kRow + j;
      bytes[row * kRowBytes + j] =
          static_cast<std::uint8_t>(code[0] | code[16] << 2 | code[32] << 4 | code[48] << 6);
    }
}

LOCKSTEP_VECTOR_CLONES void decode_rows(const std::uint8_t* bytes, float step, float* target) {
  const std::uint32_t size = std::bit_cast<std::uint32_t>(step);
  for (std::size_t row = 0; row < kBlock / kRow; ++row, bytes += kRowBytes) {
    std::uint32_t codes[kRowBytes];
    for (std::size_t j = 0; j < kRowBytes; ++j) codes[j] = bytes[j];
    for (std::size_t quarter = 0; quarter < 4; ++quarter, target += kRowBytes)
      for (std::size_t j = 0; j < kRowBytes; ++j) {
        const std::uint32_t code = codes[j] >> (2 * quarter) & 3u;
        const std::uint32_t sent = code != 0 ? ~0u : 0u;
        target[j] += std::bit_cast<float>(sent & (size | (code >> 1) << 31));
      }
  }
}

class Ternary final : public BlockCodec {
 public:
  Ternary() : BlockCodec("2bit", kBlock / 4) {}

 private:
  float encode_block(const float* sums, float total, std::size_t count, float* residual,
                     std::uint8_t* bytes) const override {
    const float least = 0.7f * (total / static_cast<float>(count));
    const float step = mean_from(sums, least);
    encode_rows(sums, least, step, residual, bytes);
    return step;
  }
  void decode_block(const std::uint8_t* bytes, float step, float* target) const override {
    decode_rows(bytes, step, target);
  }
};

}  // namespace

std::unique_ptr<Codec> ternary_codec() { return std::make_unique<Ternary>(); }

}  // namespace lockstep::kvstore
