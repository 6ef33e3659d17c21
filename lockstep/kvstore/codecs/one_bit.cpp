// SPDX-License-Identifier: Apache-2.0
#include <bit>

#include "lockstep/base/vector_clones.h"
#include "lockstep/kvstore/codecs/blocks.h"

// The signs of gradient and residual together, and for each block of 1024 values the mean of their
// sizes, which is what a sign stands for (signSGD with error feedback, Karimireddy et al. 2019). A
// block is the mean and 128 bytes; in each 16 of these, bit b of byte j is the sign of value
// j + 16 b of 128.
namespace lockstep::kvstore {
namespace {

constexpr std::size_t kBlock = BlockCodec::kBlock;
constexpr std::size_t kRow = 128;  // values whose signs are 16 bytes
constexpr std::size_t kRowBytes = 16;

LOCKSTEP_VECTOR_CLONES void encode_signs(const float* sums, float mean, float* residual,
                                         std::uint8_t* bytes) {
  for (std::size_t i = 0; i < kBlock; ++i) residual[i] = sums[i] - (sums[i] < 0.0f ? -mean : mean);
  for (std::size_t row = 0; row < kBlock / kRow; ++row, sums += kRow, bytes += kRowBytes) {
    std::uint32_t signs[kRowBytes] = {};
    for (std::size_t b = 0; b < 8; ++b)
      for (std::size_t j = 0; j < kRowBytes; ++j)
        signs[j] |= (sums[b * kRowBytes + j] < 0.0f ? 1u : 0u) << b;
    for (std::size_t j = 0; j < kRowBytes; ++j) bytes[j] = static_cast<std::uint8_t>(signs[j]);
  }
}

LOCKSTEP_VECTOR_CLONES void decode_signs(const std::uint8_t* bytes, float mean, float* target) {
  const std::uint32_t size = std::bit_cast<std::uint32_t>(mean);
  for (std::size_t row = 0; row < kBlock / kRow; ++row, bytes += kRowBytes) {
    std::uint32_t signs[kRowBytes];
    for (std::size_t j = 0; j < kRowBytes; ++j) signs[j] = bytes[j];
    for (std::size_t b = 0; b < 8; ++b, target += kRowBytes)
      for (std::size_t j = 0; j < kRowBytes; ++j)
        target[j] += std::bit_cast<float>(size ^ (signs[j] >> b & 1u) << 31);
  }
}

class OneBit final : public BlockCodec {
 public:
  OneBit() : BlockCodec("1bit", kBlock / 8) {}

 private:
  float encode_block(const float* sums, float total, std::size_t count, float* residual,
                     std::uint8_t* bytes) const override {
    const float mean = total / static_cast<float>(count);
    encode_signs(sums, mean, residual, bytes);
    return mean;
  }
  void decode_block(const std::uint8_t* bytes, float mean, float* target) const override {
    decode_signs(bytes, mean, target);
  }
};

}  // namespace

std::unique_ptr<Codec> one_bit_codec() { return std::make_unique<OneBit>(); }

}  // namespace lockstep::kvstore
