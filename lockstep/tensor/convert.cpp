// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tensor/convert.h"

#include <algorithm>
#include <cstdint>

// This file is compiled once for each instruction set; the processor's best one runs.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lockstep/tensor/convert.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lockstep {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Wide = hn::ScalableTag<float>;
using Bits = hn::ScalableTag<std::uint32_t>;
using Narrow = hn::Rebind<std::uint16_t, Wide>;
constexpr std::size_t kMaxLanes = hn::MaxLanes(Wide());

struct FromBFloat16 {
  static HWY_INLINE void step(const BFloat16* source, float* target) {
    const auto bits =
        hn::PromoteTo(Bits(), hn::LoadU(Narrow(), reinterpret_cast<const std::uint16_t*>(source)));
    hn::StoreU(hn::BitCast(Wide(), hn::ShiftLeft<16>(bits)), Wide(), target);
  }
};

struct ToBFloat16 {
  static HWY_INLINE void step(const float* source, BFloat16* target) {
    const Bits d;
    const auto value = hn::LoadU(Wide(), source);
    const auto bits = hn::BitCast(d, value);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1));
    const auto even = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(d, 0x7fff))));
    const auto nan = hn::Or(hn::ShiftRight<16>(bits), hn::Set(d, 0x40));
    const auto is_nan = hn::RebindMask(d, hn::IsNaN(value));
    const auto upper = hn::BitCast(hn::RebindToSigned<Bits>(), hn::IfThenElse(is_nan, nan, even));
    hn::StoreU(hn::DemoteTo(Narrow(), upper), Narrow(), reinterpret_cast<std::uint16_t*>(target));
  }
};

// Before AVX2 there are no instructions for float16 that round to nearest.
#if HWY_TARGET <= HWY_AVX2
using Half = hn::Rebind<hwy::float16_t, Wide>;

struct FromFloat16 {
  static HWY_INLINE void step(const Float16* source, float* target) {
    const auto half = hn::LoadU(Half(), reinterpret_cast<const hwy::float16_t*>(source));
    hn::StoreU(hn::PromoteTo(Wide(), half), Wide(), target);
  }
};

struct ToFloat16 {
  static HWY_INLINE void step(const float* source, Float16* target) {
    const auto half = hn::DemoteTo(Half(), hn::LoadU(Wide(), source));
    hn::StoreU(half, Half(), reinterpret_cast<hwy::float16_t*>(target));
  }
};
#else
template <class S, class T>
struct OneByOne {
  static void step(const S* source, T* target) {
    for (std::size_t i = 0; i < hn::Lanes(Wide()); ++i) target[i] = T(float(source[i]));
  }
};
using FromFloat16 = OneByOne<Float16, float>;
using ToFloat16 = OneByOne<float, Float16>;
#endif

template <class Step, class S, class T>
void run(const S* source, T* target, std::size_t count) {
  const std::size_t lanes = hn::Lanes(Wide());
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) Step::step(source + i, target + i);
  if (i == count) return;
  S from[kMaxLanes] = {};
  T to[kMaxLanes];
  std::copy_n(source + i, count - i, from);
  Step::step(from, to);
  std::copy_n(to, count - i, target + i);
}

void from_bfloat16(const BFloat16* source, float* target, std::size_t count) {
  run<FromBFloat16>(source, target, count);
}
void to_bfloat16(const float* source, BFloat16* target, std::size_t count) {
  run<ToBFloat16>(source, target, count);
}
void from_float16(const Float16* source, float* target, std::size_t count) {
  run<FromFloat16>(source, target, count);
}
void to_float16(const float* source, Float16* target, std::size_t count) {
  run<ToFloat16>(source, target, count);
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep {

HWY_EXPORT(from_bfloat16);
HWY_EXPORT(to_bfloat16);
HWY_EXPORT(from_float16);
HWY_EXPORT(to_float16);

void convert_run(const BFloat16* source, float* target, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(from_bfloat16)(source, target, count);
}

void convert_run(const Float16* source, float* target, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(from_float16)(source, target, count);
}

void convert_run(const float* source, BFloat16* target, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(to_bfloat16)(source, target, count);
}

void convert_run(const float* source, Float16* target, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(to_float16)(source, target, count);
}

}  // namespace lockstep
#endif
