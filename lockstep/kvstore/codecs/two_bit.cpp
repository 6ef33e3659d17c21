// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>

#include "lockstep/base/vector_clones.h"
#include "lockstep/kvstore/codecs/codecs.h"

// MXNet's 2-bit compression: where gradient and residual together reach the threshold, up or down,
// the threshold is sent and taken off; the rest waits in the residual. Blocks of 64 values are 16
// bytes, and byte j has the codes of values j, j + 16, j + 32 and j + 48, so that loops over bytes
// become vectors. Code 1 is +threshold, 2 is -threshold, 3 is no number.
namespace lockstep::kvstore {
namespace {

constexpr std::size_t kBlock = 64;
constexpr std::size_t kBlockBytes = 16;

// The clones differ in vector width alone: each value is computed by itself. Choices are made by
// masks, which compilers turn into vectors.
LOCKSTEP_VECTOR_CLONES void encode_blocks(const float* values, float* residual, std::uint8_t* bytes,
                                          std::size_t blocks, float threshold) {
  const std::uint32_t step = std::bit_cast<std::uint32_t>(threshold);
  for (std::size_t b = 0; b < blocks; ++b, values += kBlock, residual += kBlock) {
    std::uint32_t codes[kBlock];
    float kept[kBlock];
    for (std::size_t i = 0; i < kBlock; ++i) {
      const float sum = values[i] + residual[i];
      const std::uint32_t bits = std::bit_cast<std::uint32_t>(sum);
      const std::uint32_t size = bits & 0x7fffffffu;
      const std::uint32_t sign = bits >> 31;
      const std::uint32_t sends = size >= step ? ~0u : 0u;
      const std::uint32_t bad = size >= 0x7f800000u ? ~0u : 0u;
      const float rest = sum - std::bit_cast<float>(sends & (step | sign << 31));
      codes[i] = (sends & (1u + sign)) | (bad & 3u);
      kept[i] = std::bit_cast<float>((std::bit_cast<std::uint32_t>(rest) & ~bad) |
                                     (std::bit_cast<std::uint32_t>(residual[i]) & bad));
    }
    for (std::size_t i = 0; i < kBlock; ++i) residual[i] = kept[i];
    for (std::size_t j = 0; j < kBlockBytes; ++j)
      bytes[b * kBlockBytes + j] = static_cast<std::uint8_t>(
          codes[j] | codes[j + 16] << 2 | codes[j + 32] << 4 | codes[j + 48] << 6);
  }
}

LOCKSTEP_VECTOR_CLONES void decode_blocks(const std::uint8_t* bytes, float* target,
                                          std::size_t blocks, float threshold) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (std::size_t b = 0; b < blocks; ++b, bytes += kBlockBytes)
    for (std::size_t quarter = 0; quarter < 4; ++quarter, target += kBlockBytes)
      for (std::size_t j = 0; j < kBlockBytes; ++j) {
        const std::uint32_t code = std::uint32_t{bytes[j]} >> (2 * quarter) & 3u;
        const float step = code == 1 ? threshold : (code == 2 ? -threshold : 0.0f);
        target[j] += code == 3 ? nan : step;
      }
}

class TwoBit final : public Codec {
 public:
  explicit TwoBit(float threshold) : threshold_(threshold) {}
  std::size_t payload_bytes(std::size_t count) const override {
    return (count + kBlock - 1) / kBlock * kBlockBytes;
  }
  std::size_t grain() const override { return kBlock; }
  bool is_rounding() const override { return false; }

  void encode(std::span<const float> values, std::span<float> residual,
              std::span<std::byte> payload) const override {
    check_residual("2bit", values.size(), residual.size(), payload.size(), *this);
    auto* bytes = reinterpret_cast<std::uint8_t*>(payload.data());
    const std::size_t whole = values.size() / kBlock, rest = values.size() % kBlock;
    encode_blocks(values.data(), residual.data(), bytes, whole, threshold_);
    if (rest == 0) return;
    float last[kBlock] = {}, kept[kBlock] = {};
    std::copy_n(values.data() + whole * kBlock, rest, last);
    std::copy_n(residual.data() + whole * kBlock, rest, kept);
    encode_blocks(last, kept, bytes + whole * kBlockBytes, 1, threshold_);
    std::copy_n(kept, rest, residual.data() + whole * kBlock);
  }

  void decode_add(std::span<const std::byte> payload, std::span<float> target) const override {
    check_payload("2bit", *this, payload.size(), target.size());
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(payload.data());
    const std::size_t whole = target.size() / kBlock, rest = target.size() % kBlock;
    float last[kBlock] = {};
    if (rest > 0) decode_last(bytes + whole * kBlockBytes, rest, last);
    decode_blocks(bytes, target.data(), whole, threshold_);
    for (std::size_t i = 0; i < rest; ++i) target[whole * kBlock + i] += last[i];
  }

 private:
  void decode_last(const std::uint8_t* bytes, std::size_t count, float* values) const {
    decode_blocks(bytes, values, 1, threshold_);
    for (std::size_t i = count; i < kBlock; ++i)
      if (!(values[i] == 0.0f))
        throw Corrupt("2bit: the payload says something of a value after its last, number {}", i);
  }

  float threshold_;
};

}  // namespace

std::unique_ptr<Codec> two_bit_codec(float threshold) {
  return std::make_unique<TwoBit>(threshold);
}

}  // namespace lockstep::kvstore
