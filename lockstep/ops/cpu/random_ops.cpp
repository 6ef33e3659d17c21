// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/random_ops.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lockstep/ops/cpu/random_ops.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "lockstep/ops/cpu/rows-inl.h"
#include "lockstep/ops/random_attrs.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels {
namespace HWY_NAMESPACE {

// Box-Muller: words 2j and 2j + 1 make normals 2j and 2j + 1. `values` has kRandomChunk places.
void NormalsFromBits(const std::uint32_t* bits, float mean, float stddev, float* values) {
  const hn::ScalableTag<std::uint32_t> du;
  const hn::RebindToSigned<decltype(du)> di;
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto unit = hn::Set(d, 0x1p-24f);
  for (std::int64_t i = 0; i < kRandomChunk; i += 2 * lanes) {
    hn::Vec<decltype(du)> first, second;
    hn::LoadInterleaved2(du, bits + i, first, second);
    const auto above_zero = hn::Add(hn::ShiftRight<8>(first), hn::Set(du, 1u));
    const auto u = hn::Mul(hn::ConvertTo(d, hn::BitCast(di, above_zero)), unit);
    const auto turn = hn::Mul(hn::ConvertTo(d, hn::BitCast(di, hn::ShiftRight<8>(second))), unit);
    const auto angle = hn::Mul(turn, hn::Set(d, 2.0f * std::numbers::pi_v<float>));
    const auto squared = hn::Mul(hn::Log(d, u), hn::Set(d, -2.0f));
    const auto radius = hn::Mul(hn::Sqrt(hn::Max(squared, hn::Zero(d))), hn::Set(d, stddev));
    const auto centre = hn::Set(d, mean);
    hn::StoreInterleaved2(hn::MulAdd(radius, hn::Cos(d, angle), centre),
                          hn::MulAdd(radius, hn::Sin(d, angle), centre), d, values + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {
namespace {

HWY_EXPORT(NormalsFromBits);

using Words = std::array<std::uint32_t, kRandomChunk>;

// Calls f(words, first element, number of elements), a chunk at a time; an element takes
// `words_each` words.
template <class F>
void for_each_chunk(const RandomKey& key, std::int64_t n, std::int64_t words_each, F&& f) {
  alignas(64) Words words;
  const std::int64_t chunk = kRandomChunk / words_each;
  for (std::int64_t i = 0; i < n; i += chunk) {
    fill_random_bits(key, static_cast<std::uint64_t>(i * words_each), words.data());
    f(words, i, std::min(chunk, n - i));
  }
}

// Bits that fit T's significand, so that rounding cannot turn the last value into 1.
template <class T>
constexpr int kUnitBits = std::is_same_v<T, double>     ? 53
                          : std::is_same_v<T, float>    ? 24
                          : std::is_same_v<T, BFloat16> ? 8
                                                        : 11;

// The first bits of one word, or of two.
template <int kBits>
auto leading_bits(const std::uint32_t* words) {
  if constexpr (kBits <= 32)
    return words[0] >> (32 - kBits);
  else
    return (std::uint64_t{words[1]} << 32 | words[0]) >> (64 - kBits);
}

template <class T>
T just_below(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::nextafter(value, -std::numeric_limits<T>::infinity());
  } else {
    if ((value.bits & 0x7fffu) == 0)
      value.bits = 0x8001u;
    else
      value.bits = static_cast<std::uint16_t>(value.bits + (value.bits & 0x8000u ? 1 : -1));
    return value;
  }
}

template <class F>
void with_float_output(const KernelCall& call, F&& f) {
  const TensorView& out = call.outputs[0];
  switch (out.dtype) {
    case DType::float32: return f(out.as<float>());
    case DType::float64: return f(out.as<double>());
    case DType::float16: return f(out.as<Float16>());
    default: return f(out.as<BFloat16>());
  }
}

template <class T>
void uniform_of(const UniformAttrs& attrs, const RandomKey& key, T* out, std::int64_t n) {
  using A = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const A low = static_cast<A>(attrs.low);
  const A width = static_cast<A>(attrs.high - attrs.low);
  const A unit = static_cast<A>(std::ldexp(1.0, -kUnitBits<T>));
  const T limit = static_cast<T>(static_cast<A>(attrs.high));
  const T last = attrs.low < attrs.high ? just_below(limit) : limit;
  constexpr std::int64_t kWordsEach = (kUnitBits<T>) > 32 ? 2 : 1;
  for_each_chunk(
      key, n, kWordsEach, [&](const Words& words, std::int64_t first, std::int64_t count) {
        for (std::int64_t i = 0; i < count; ++i) {
          const auto bits =
              leading_bits<kUnitBits<T>>(&words[static_cast<std::size_t>(i * kWordsEach)]);
          const T value = static_cast<T>(low + width * (static_cast<A>(bits) * unit));
          out[first + i] = static_cast<A>(value) > static_cast<A>(last) ? last : value;
        }
      });
}

void uniform_kernel(const KernelCall& call) {
  const auto& attrs = call.attrs.as<UniformAttrs>();
  const RandomKey key = key_from(call.inputs[0], attrs.use);
  with_float_output(call, [&](auto* out) { uniform_of(attrs, key, out, call.outputs[0].numel()); });
}

template <class T>
void normal_of(const NormalAttrs& attrs, const RandomKey& key, T* out, std::int64_t n) {
  const auto mean = static_cast<float>(attrs.mean);
  const auto stddev = static_cast<float>(attrs.stddev);
  alignas(64) std::array<float, kRandomChunk> values;
  for_each_chunk(key, n, 1, [&](const Words& words, std::int64_t first, std::int64_t count) {
    HWY_DYNAMIC_DISPATCH(NormalsFromBits)(words.data(), mean, stddev, values.data());
    for (std::int64_t i = 0; i < count; ++i)
      out[first + i] = static_cast<T>(values[static_cast<std::size_t>(i)]);
  });
}

void normal_of(const NormalAttrs& attrs, const RandomKey& key, double* out, std::int64_t n) {
  for_each_chunk(key, n, 1, [&](const Words& words, std::int64_t first, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      const auto pair = static_cast<std::size_t>(i) & ~std::size_t{1};
      const double u = (static_cast<double>(words[pair]) + 1.0) * 0x1p-32;
      const double angle = words[pair + 1] * 0x1p-32 * 2.0 * std::numbers::pi;
      const double radius = std::sqrt(-2.0 * std::log(u));
      const double value = radius * (i & 1 ? std::sin(angle) : std::cos(angle));
      out[first + i] = attrs.mean + attrs.stddev * value;
    }
  });
}

void normal_kernel(const KernelCall& call) {
  const auto& attrs = call.attrs.as<NormalAttrs>();
  const RandomKey key = key_from(call.inputs[0], attrs.use);
  with_float_output(call, [&](auto* out) { normal_of(attrs, key, out, call.outputs[0].numel()); });
}

void bernoulli_kernel(const KernelCall& call) {
  const auto& attrs = call.attrs.as<BernoulliAttrs>();
  const RandomKey key = key_from(call.inputs[0], attrs.use);
  const std::uint64_t threshold = bernoulli_threshold(attrs.p);
  visit_dtype(call.outputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* out = call.outputs[0].as<T>();
    const auto fill = [&](const Words& words, std::int64_t first, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i)
        out[first + i] =
            static_cast<T>(words[static_cast<std::size_t>(i)] < threshold ? 1.0f : 0.0f);
    };
    for_each_chunk(key, call.outputs[0].numel(), 1, fill);
  });
}

// Scales 64 random bits to 0..range-1; the bias is below range / 2^64.
std::uint64_t below(std::uint64_t range, const Words& words, std::int64_t i) {
  const auto at = static_cast<std::size_t>(2 * i);
  const std::uint64_t bits = words[at] | (static_cast<std::uint64_t>(words[at + 1]) << 32);
  return static_cast<std::uint64_t>((static_cast<unsigned __int128>(bits) * range) >> 64);
}

void randint_kernel(const KernelCall& call) {
  const auto& attrs = call.attrs.as<RandintAttrs>();
  const RandomKey key = key_from(call.inputs[0], attrs.use);
  const auto low = static_cast<std::uint64_t>(attrs.low);
  const std::uint64_t range = static_cast<std::uint64_t>(attrs.high) - low;
  visit_dtype(call.outputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* out = call.outputs[0].as<T>();
    const auto fill = [&](const Words& words, std::int64_t first, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i)
        out[first + i] = static_cast<T>(static_cast<std::int64_t>(low + below(range, words, i)));
    };
    for_each_chunk(key, call.outputs[0].numel(), 2, fill);
  });
}

// Fisher-Yates: place i takes what stands at a random place up to i.
void permutation_kernel(const KernelCall& call) {
  const auto& attrs = call.attrs.as<PermutationAttrs>();
  std::int64_t* out = call.outputs[0].as<std::int64_t>();
  const auto shuffle = [&](const Words& words, std::int64_t first, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      const auto other =
          static_cast<std::int64_t>(below(static_cast<std::uint64_t>(first + i) + 1, words, i));
      out[first + i] = out[other];
      out[other] = first + i;
    }
  };
  for_each_chunk(key_from(call.inputs[0], attrs.use), attrs.n, 2, shuffle);
}

constexpr DTypeSet kKeyType{DType::int64};

}  // namespace

std::span<const KernelCandidate> uniform_kernels() {
  static constexpr KernelCandidate list[] = {{"philox", kKeyType, uniform_kernel}};
  return list;
}

std::span<const KernelCandidate> normal_kernels() {
  static constexpr KernelCandidate list[] = {{"philox", kKeyType, normal_kernel}};
  return list;
}

std::span<const KernelCandidate> bernoulli_kernels() {
  static constexpr KernelCandidate list[] = {{"philox", kKeyType, bernoulli_kernel}};
  return list;
}

std::span<const KernelCandidate> randint_kernels() {
  static constexpr KernelCandidate list[] = {{"philox", kKeyType, randint_kernel}};
  return list;
}

std::span<const KernelCandidate> permutation_kernels() {
  static constexpr KernelCandidate list[] = {{"philox", kKeyType, permutation_kernel}};
  return list;
}

}  // namespace lockstep::kernels
#endif
