// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "lockstep/base/vector_clones.h"
#include "lockstep/kvstore/codecs/codecs.h"

// Two bits a value with a step of each block's own, for those who do not know a threshold that fits
// all parameters and all of the run. Of 1024 values those of at least 0.7 of the mean size are
// sent, as plus or minus the mean of their sizes (Li et al. 2016, for weights); the rest waits in
// the residual. A block is the step and 16 rows of 16 bytes, each laid out as in two_bit.cpp. A
// block that is not all numbers has a NaN for its step.
namespace lockstep::kvstore {
namespace {

constexpr std::size_t kBlock = 1024;
constexpr std::size_t kRow = 64;
constexpr std::size_t kRowBytes = 16;
constexpr std::size_t kBlockBytes = sizeof(float) + kBlock / 4;
constexpr std::size_t kLanes = 16;

// Both in sixteen sums and then in order, so that a vector's width changes no bit.
LOCKSTEP_VECTOR_CLONES float sum_sizes(const float* values, const float* residual, float* sums) {
  float lanes[kLanes] = {};
  for (std::size_t i = 0; i < kBlock; i += kLanes)
    for (std::size_t j = 0; j < kLanes; ++j) {
      sums[i + j] = values[i + j] + residual[i + j];
      lanes[j] += std::fabs(sums[i + j]);
    }
  float total = 0.0f;
  for (const float lane : lanes) total += lane;
  return total;
}

LOCKSTEP_VECTOR_CLONES float mean_from(const float* sums, float least) {
  float lanes[kLanes] = {}, counts[kLanes] = {};
  for (std::size_t i = 0; i < kBlock; i += kLanes)
    for (std::size_t j = 0; j < kLanes; ++j) {
      const float size = std::fabs(sums[i + j]);
      lanes[j] += size >= least ? size : 0.0f;
      counts[j] += size >= least ? 1.0f : 0.0f;
    }
  float total = 0.0f, count = 0.0f;
  for (std::size_t j = 0; j < kLanes; ++j) total += lanes[j], count += counts[j];
  return total / count;
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

float read_step(const std::byte* block) {
  float step = 0.0f;
  std::memcpy(&step, block, sizeof step);
  return step;
}

class Ternary final : public Codec {
 public:
  std::size_t payload_bytes(std::size_t count) const override {
    return (count + kBlock - 1) / kBlock * kBlockBytes;
  }
  std::size_t grain() const override { return kBlock; }
  bool is_rounding() const override { return false; }

  void encode(std::span<const float> values, std::span<float> residual,
              std::span<std::byte> payload) const override {
    check_residual("2bit", values.size(), residual.size(), payload.size(), *this);
    std::byte* block = payload.data();
    for (std::size_t begin = 0; begin < values.size(); begin += kBlock, block += kBlockBytes) {
      const std::size_t count = std::min(kBlock, values.size() - begin);
      float last[kBlock] = {}, kept[kBlock] = {};
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
    check_payload("2bit", *this, payload.size(), target.size());
    for (std::size_t at = 0; at < payload.size(); at += kBlockBytes)
      if (const float step = read_step(payload.data() + at); step < 0.0f || std::isinf(step))
        throw Corrupt("2bit: the step of block {} is {}, expected no less than 0", at / kBlockBytes,
                      step);
    for (std::size_t begin = 0, at = 0; begin < target.size(); begin += kBlock, at += kBlockBytes)
      decode_block(payload.data() + at, target.subspan(begin));
  }

 private:
  // A residual that a NaN got into would keep it for ever: it stays as it was.
  static void encode_block(const float* values, float* residual, std::size_t count,
                           std::byte* block) {
    float sums[kBlock];
    const float least = 0.7f * (sum_sizes(values, residual, sums) / static_cast<float>(count));
    const bool good = std::isfinite(least);
    const float step = good ? mean_from(sums, least) : std::numeric_limits<float>::quiet_NaN();
    std::memcpy(block, &step, sizeof step);
    auto* bytes = reinterpret_cast<std::uint8_t*>(block + sizeof step);
    if (good)
      encode_rows(sums, least, step, residual, bytes);
    else
      std::memset(bytes, 0x55, kBlock / 4);
  }

  static void decode_block(const std::byte* block, std::span<float> target) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(block + sizeof(float));
    if (target.size() >= kBlock) return decode_rows(bytes, read_step(block), target.data());
    float last[kBlock] = {};
    std::copy(target.begin(), target.end(), last);
    decode_rows(bytes, read_step(block), last);
    std::copy_n(last, target.size(), target.data());
  }
};

}  // namespace

std::unique_ptr<Codec> ternary_codec() { return std::make_unique<Ternary>(); }

}  // namespace lockstep::kvstore
