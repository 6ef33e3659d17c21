// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <type_traits>

#include "lockstep/base/vector_clones.h"
#include "lockstep/kvstore/codecs/codecs.h"
#include "lockstep/tensor/convert.h"

// 16 bits a value, rounded to nearest even. What float16 cannot hold becomes infinite.
namespace lockstep::kvstore {
namespace {

constexpr std::size_t kTile = 2048;
constexpr double kLargestFloat16 = 65504.0;

LOCKSTEP_VECTOR_CLONES void add(const float* values, float* target, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) target[i] += values[i];
}

template <class Half>
class HalfCodec final : public Codec {
 public:
  std::size_t payload_bytes(std::size_t count) const override { return count * sizeof(Half); }
  std::size_t grain() const override { return 1; }
  bool is_rounding() const override { return true; }
  double largest() const override {
    return std::is_same_v<Half, Float16> ? kLargestFloat16 : Codec::largest();
  }

  void encode(std::span<const float> values, std::span<float> residual,
              std::span<std::byte> payload) const override {
    check_residual("half", values.size(), residual.size(), payload.size(), *this);
    convert_run(values.data(), reinterpret_cast<Half*>(payload.data()), values.size());
  }

  void decode_add(std::span<const std::byte> payload, std::span<float> target) const override {
    check_payload("half", *this, payload.size(), target.size());
    const auto* halves = reinterpret_cast<const Half*>(payload.data());
    float tile[kTile];
    for (std::size_t begin = 0; begin < target.size(); begin += kTile) {
      const std::size_t count = std::min(kTile, target.size() - begin);
      convert_run(halves + begin, tile, count);
      add(tile, target.data() + begin, count);
    }
  }
};

}  // namespace

std::unique_ptr<Codec> float16_codec() { return std::make_unique<HalfCodec<Float16>>(); }
std::unique_ptr<Codec> bfloat16_codec() { return std::make_unique<HalfCodec<BFloat16>>(); }

}  // namespace lockstep::kvstore
