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
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, x))), m);
  high = hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even)));
  low = hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd)), hn::BitCast(d, even));
}

// The counters of as many neighbouring blocks as there are lanes.
struct Blocks {
  V c0, c1, c2, c3;

  HWY_INLINE Blocks(const RandomKey& key, V block)
      : c0(block),
        c1(hn::Set(D(), key.use)),
        c2(hn::Set(D(), key.step)),
        c3(hn::Set(D(), key.shard)) {}

  HWY_INLINE void round(V k0, V k1) {
    const D d;
    V high0, low0, high1, low1;
    multiply_wide(c0, hn::Set(d, 0xD2511F53u), high0, low0);
    multiply_wide(c2, hn::Set(d, 0xCD9E8D57u), high1, low1);
    c0 = hn::Xor(high1, hn::Xor(c1, k0));
    c1 = low1;
    c2 = hn::Xor(high0, hn::Xor(c3, k1));
    c3 = low0;
  }

  HWY_INLINE void store(std::uint32_t* out) const {
    hn::StoreInterleaved4(c0, c1, c2, c3, D(), out);
  }
};

// philox() of tensor/philox.h, on two vectors of blocks at a time: one hides the other's latency.
void FillRandomBits(const RandomKey& key, std::uint64_t first, std::uint32_t* bits) {
  const D d;
  const auto lanes = static_cast<std::uint32_t>(hn::Lanes(d));
  V block = hn::Iota(d, static_cast<std::uint32_t>(first >> 2));
  for (std::int64_t i = 0; i < kRandomChunk; i += 8 * lanes) {
    Blocks a(key, block);
    Blocks b(key, hn::Add(block, hn::Set(d, lanes)));
    V k0 = hn::Set(d, static_cast<std::uint32_t>(key.seed));
    V k1 = hn::Set(d, static_cast<std::uint32_t>(key.seed >> 32));
    for (int round = 0; round < 10; ++round) {
      a.round(k0, k1);
      b.round(k0, k1);
      k0 = hn::Add(k0, hn::Set(d, 0x9E3779B9u));
      k1 = hn::Add(k1, hn::Set(d, 0xBB67AE85u));
    }
    a.store(bits + i);
    b.store(bits + i + 4 * lanes);
    block = hn::Add(block, hn::Set(d, 2 * lanes));
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
