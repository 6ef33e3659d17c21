// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "lockstep/ops/cpu/random_ops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lockstep/ops/cpu/random_bits.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR

void FillRandomBits(const RandomKey& key, std::uint64_t first, std::uint32_t* bits) {
  for (std::int64_t i = 0; i < kRandomChunk; i += 4) {
    const auto words = philox(key, static_cast<std::uint32_t>((first + i) >> 2));
    std::copy(words.begin(), words.end(), bits + i);
  }
}

#else

using D = hn::ScalableTag<std::uint32_t>;
using V = hn::Vec<D>;

// The upper and lower halves of x * m in each lane: even lanes and odd lanes are multiplied apart.
HWY_INLINE void multiply_wide(V x, V m, V& high, V& low) {
  const D d;
  const hn::RepartitionToWide<D> wide;
  const auto even = hn::MulEven(x, m);
  const auto odd =
      hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, x))), m);
  high = hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even)));
  low = hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd)), hn::BitCast(d, even));
}

// philox() of tensor/philox.h on as many neighbouring blocks as there are lanes.
HWY_INLINE void philox_blocks(const RandomKey& key, std::uint32_t block, std::uint32_t* out) {
  const D d;
  const V m0 = hn::Set(d, 0xD2511F53u);
  const V m1 = hn::Set(d, 0xCD9E8D57u);
  V c0 = hn::Iota(d, block);
  V c1 = hn::Set(d, key.use);
  V c2 = hn::Set(d, key.step);
  V c3 = hn::Set(d, key.shard);
  auto k0 = static_cast<std::uint32_t>(key.seed);
  auto k1 = static_cast<std::uint32_t>(key.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    V high0, low0, high1, low1;
    multiply_wide(c0, m0, high0, low0);
    multiply_wide(c2, m1, high1, low1);
    c0 = hn::Xor(hn::Xor(high1, c1), hn::Set(d, k0));
    c1 = low1;
    c2 = hn::Xor(hn::Xor(high0, c3), hn::Set(d, k1));
    c3 = low0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  hn::StoreInterleaved4(c0, c1, c2, c3, d, out);
}

void FillRandomBits(const RandomKey& key, std::uint64_t first, std::uint32_t* bits) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(D()));
  auto block = static_cast<std::uint32_t>(first >> 2);
  for (std::int64_t i = 0; i < kRandomChunk; i += 4 * lanes) {
    philox_blocks(key, block, bits + i);
    block += static_cast<std::uint32_t>(lanes);
  }
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {

HWY_EXPORT(FillRandomBits);

void fill_random_bits(const RandomKey& key, std::uint64_t first, std::uint32_t* bits) {
  HWY_DYNAMIC_DISPATCH(FillRandomBits)(key, first, bits);
}

RandomKey key_from(const TensorView& key, std::int64_t use) {
  const auto* words = key.as<const std::int64_t>();
  return {static_cast<std::uint64_t>(words[0]), static_cast<std::uint32_t>(words[1]),
          static_cast<std::uint32_t>(words[2]), static_cast<std::uint32_t>(use)};
}

std::uint64_t bernoulli_threshold(double p) { return static_cast<std::uint64_t>(p * 0x1p32 + 0.5); }

}  // namespace lockstep::kernels
#endif
