// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/codecs/blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "lockstep/base/vector_clones.h"

namespace lockstep::kvstore {
namespace {

constexpr std::size_t kLanes = 16;

// In sixteen sums and then in order, so that a vector's width changes no bit. The clones differ in
// that alone.
LOCKSTEP_VECTOR_CLONES float add_up(const float* values, const float* residual, float* sums) {
  float lanes[kLanes] = {};
  for (std::size_t i = 0; i < BlockCodec::kBlock; i += kLanes)
    for (std::size_t j = 0; j < kLanes; ++j) {
      sums[i + j] = values[i + j] + residual[i + j];
      lanes[j] += std::fabs(sums[i + j]);
    }
  float total = 0.0f;
  for (const float lane : lanes) total += lane;
  return total;
}

float read_step(const std::byte* block) {
  float step = 0.0f;
  std::memcpy(&step, block, sizeof step);
  return step;
}

}  // namespace

void BlockCodec::encode(std::span<const float> values, std::span<float> residual,
                        std::span<std::byte> payload) const {
  check_residual(name_, values.size(), residual.size(), payload.size(), *this);
  std::byte* block = payload.data();
  const std::size_t whole = values.size() / kBlock * kBlock, rest = values.size() - whole;
  for (std::size_t begin = 0; begin < whole; begin += kBlock, block += sizeof(float) + bytes_)
    encode_one(values.data() + begin, residual.data() + begin, kBlock, block);
  if (rest == 0) return;
  float last[kBlock] = {}, kept[kBlock] = {};
  std::copy_n(values.data() + whole, rest, last);
  std::copy_n(residual.data() + whole, rest, kept);
  encode_one(last, kept, rest, block);
  std::copy_n(kept, rest, residual.data() + whole);
}

// A residual that a NaN got into would keep it for ever: it stays as it was.
void BlockCodec::encode_one(const float* values, float* residual, std::size_t count,
                            std::byte* block) const {
  float sums[kBlock];
  const float total = add_up(values, residual, sums);
  auto* bytes = reinterpret_cast<std::uint8_t*>(block + sizeof(float));
  float step = std::numeric_limits<float>::quiet_NaN();
  if (std::isfinite(total))
    step = encode_block(sums, total, count, residual, bytes);
  else
    std::memset(bytes, 0x55, bytes_);  // something is sent of every value
  std::memcpy(block, &step, sizeof step);
}

void BlockCodec::decode_add(std::span<const std::byte> payload, std::span<float> target) const {
  check_payload(name_, *this, payload.size(), target.size());
  const std::size_t block = sizeof(float) + bytes_;
  for (std::size_t at = 0; at < payload.size(); at += block)
    if (const float step = read_step(payload.data() + at); step < 0.0f || std::isinf(step))
      throw Corrupt("{}: the step of block {} is {}, expected no less than 0", name_, at / block,
                    step);
  for (std::size_t begin = 0, at = 0; begin < target.size(); begin += kBlock, at += block)
    decode_one(payload.data() + at, target.subspan(begin));
}

void BlockCodec::decode_one(const std::byte* block, std::span<float> target) const {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(block + sizeof(float));
  if (target.size() >= kBlock) return decode_block(bytes, read_step(block), target.data());
  float last[kBlock] = {};
  std::copy(target.begin(), target.end(), last);
  decode_block(bytes, read_step(block), last);
  std::copy_n(last, target.size(), target.data());
}

}  // namespace lockstep::kvstore
