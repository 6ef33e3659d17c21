// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "lockstep/base/vector_clones.h"
#include "lockstep/kvstore/codecs/codecs.h"

// The signs of gradient and residual together, and for each block of 1024 values the mean of their
// sizes, which is what a sign stands for (signSGD with error feedback, Karimireddy et al. 2019). A
// block is the mean and 128 bytes; in each 16 of these, bit b of byte j is the sign of value
// j + 16 b of 128. A block that is not all numbers has a NaN for its mean.
namespace lockstep::kvstore {
namespace {

constexpr std::size_t kBlock = 1024;
constexpr std::size_t kRow = 128;  // values whose signs are 16 bytes
constexpr std::size_t kRowBytes = 16;
constexpr std::size_t kBlockBytes = sizeof(float) + kBlock / 8;
constexpr std::size_t kLanes = 16;

// In sixteen sums and then in order, so that a vector's width changes no bit. The clones differ in
// that alone.
LOCKSTEP_VECTOR_CLONES float mean_size(const float* values, const float* residual, float* sums,
                                       std::size_t count) {
  float lanes[kLanes] = {};
  for (std::size_t i = 0; i < kBlock; i += kLanes)
    for (std::size_t j = 0; j < kLanes; ++j) {
      sums[i + j] = values[i + j] + residual[i + j];
      lanes[j] += std::fabs(sums[i + j]);
    }
  float total = 0.0f;
  for (const float lane : lanes) total += lane;
  const float mean = total / static_cast<float>(count);
  return std::isfinite(mean) ? mean : std::numeric_limits<float>::quiet_NaN();
}

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

float read_mean(const std::byte* block) {
  float mean = 0.0f;
  std::memcpy(&mean, block, sizeof mean);
  return mean;
}

class OneBit final : public Codec {
 public:
  std::size_t payload_bytes(std::size_t count) const override {
    return (count + kBlock - 1) / kBlock * kBlockBytes;
  }
  std::size_t grain() const override { return kBlock; }
  bool is_rounding() const override { return false; }

  void encode(std::span<const float> values, std::span<float> residual,
              std::span<std::byte> payload) const override {
    check_residual("1bit", values.size(), residual.size(), payload.size(), *this);
    float last[kBlock] = {}, kept[kBlock] = {};
    std::byte* block = payload.data();
    for (std::size_t begin = 0; begin < values.size(); begin += kBlock, block += kBlockBytes) {
      const std::size_t count = std::min(kBlock, values.size() - begin);
      if (count == kBlock) {
        encode_block(values.data() + begin, residual.data() + begin, count, block);
        continue;
      }
      std::copy_n(values.data() + begin, count, last);
      std::copy_n(residual.data() + begin, count, kept);
      encode_block(last, kept, count, block);
      std::copy_n(kept, count, residual.data() + begin);
    }
  }

  void decode_add(std::span<const std::byte> payload, std::span<float> target) const override {
    check_payload("1bit", *this, payload.size(), target.size());
    for (std::size_t at = 0; at < payload.size(); at += kBlockBytes)
      if (const float mean = read_mean(payload.data() + at); mean < 0.0f || std::isinf(mean))
        throw Corrupt("1bit: the mean of block {} is {}, expected no less than 0", at / kBlockBytes,
                      mean);
    for (std::size_t begin = 0, at = 0; begin < target.size(); begin += kBlock, at += kBlockBytes)
      decode_block(payload.data() + at, target.subspan(begin));
  }

 private:
  // A residual that a NaN got into would keep it for ever: it stays as it was.
  static void encode_block(const float* values, float* residual, std::size_t count,
                           std::byte* block) {
    float sums[kBlock];
    const float mean = mean_size(values, residual, sums, count);
    std::memcpy(block, &mean, sizeof mean);
    auto* bytes = reinterpret_cast<std::uint8_t*>(block + sizeof mean);
    if (std::isnan(mean))
      std::memset(bytes, 0, kBlock / 8);
    else
      encode_signs(sums, mean, residual, bytes);
  }

  static void decode_block(const std::byte* block, std::span<float> target) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(block + sizeof(float));
    if (target.size() >= kBlock) return decode_signs(bytes, read_mean(block), target.data());
    float last[kBlock] = {};
    std::copy(target.begin(), target.end(), last);
    decode_signs(bytes, read_mean(block), last);
    std::copy_n(last, target.size(), target.data());
  }
};

}  // namespace

std::unique_ptr<Codec> one_bit_codec() { return std::make_unique<OneBit>(); }

}  // namespace lockstep::kvstore
