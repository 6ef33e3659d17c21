// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "lockstep/ops/cpu/random_ops.h"
#include "lockstep/ops/random_attrs.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lockstep/ops/cpu/dropout.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void DropFloats(const float* x, const std::uint32_t* bits, std::uint32_t threshold, float scale,
                float* y, std::int64_t n) {
  const hn::ScalableTag<float> d;
  const hn::ScalableTag<std::uint32_t> du;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto limit = hn::Set(du, threshold);
  const auto factor = hn::Set(d, scale);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto drop = hn::RebindMask(d, hn::Lt(hn::Load(du, bits + i), limit));
    hn::StoreU(hn::IfThenZeroElse(drop, hn::Mul(hn::LoadU(d, x + i), factor)), d, y + i);
  }
  for (; i < n; ++i) y[i] = bits[i] < threshold ? 0.0f : x[i] * scale;
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {
namespace {

HWY_EXPORT(DropFloats);

void drop(const float* x, const std::uint32_t* bits, std::uint32_t threshold, double scale,
          float* y, std::int64_t n) {
  HWY_DYNAMIC_DISPATCH(DropFloats)(x, bits, threshold, static_cast<float>(scale), y, n);
}

void drop(const double* x, const std::uint32_t* bits, std::uint32_t threshold, double scale,
          double* y, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = bits[i] < threshold ? 0.0 : x[i] * scale;
}

template <class T>
void dropout_of(const KernelCall& call) {
  const auto& attrs = call.attrs.as<DropoutAttrs>();
  const RandomKey key = key_from(call.inputs[1], attrs.use);
  const auto threshold = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(bernoulli_threshold(attrs.p), 0xffffffffu));
  const double scale = 1.0 / (1.0 - attrs.p);
  const T* x = call.inputs[0].as<const T>();
  T* y = call.outputs[0].as<T>();
  const std::int64_t n = call.outputs[0].numel();
  alignas(64) std::uint32_t bits[kRandomChunk];
  for (std::int64_t i = 0; i < n; i += kRandomChunk) {
    fill_random_bits(key, static_cast<std::uint64_t>(i), bits);
    drop(x + i, bits, threshold, scale, y + i, std::min(kRandomChunk, n - i));
  }
}

}  // namespace

std::span<const KernelCandidate> dropout_kernels() {
  static constexpr KernelCandidate list[] = {{"philox", {DType::float32}, dropout_of<float>},
                                             {"philox", {DType::float64}, dropout_of<double>}};
  return list;
}

}  // namespace lockstep::kernels
#endif
