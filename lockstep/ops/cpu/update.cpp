// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/update.h"

#include <algorithm>

#include "lockstep/ops/update_attrs.h"

// This file is compiled once for each instruction set; the processor's best one runs.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lockstep/ops/cpu/update.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
struct Sgd {
  using V = hn::Vec<D>;
  using T = hn::TFromD<D>;

  V momentum, rate, scale, decay;

  // One vector.
  HWY_INLINE void step(const T* w, const T* g, const T* m, T* new_w, T* new_m) const {
    const D d;
    const V weight = hn::LoadU(d, w);
    const V slope = hn::MulAdd(scale, hn::LoadU(d, g), hn::Mul(decay, weight));
    const V buffer = hn::NegMulAdd(rate, slope, hn::Mul(momentum, hn::LoadU(d, m)));
    hn::StoreU(buffer, d, new_m);
    hn::StoreU(hn::Add(weight, buffer), d, new_w);
  }

  // The last few values go through vectors of their own, so that they get the same arithmetic.
  void rest(const T* w, const T* g, const T* m, T* new_w, T* new_m, std::size_t count) const {
    HWY_ALIGN T weight[hn::MaxLanes(D())] = {};
    HWY_ALIGN T slope[hn::MaxLanes(D())] = {};
    HWY_ALIGN T buffer[hn::MaxLanes(D())] = {};
    std::copy_n(w, count, weight);
    std::copy_n(g, count, slope);
    std::copy_n(m, count, buffer);
    step(weight, slope, buffer, weight, buffer);
    std::copy_n(weight, count, new_w);
    std::copy_n(buffer, count, new_m);
  }
};

template <class T>
void update(const KernelCall& call) {
  using D = hn::ScalableTag<T>;
  const D d;
  const auto& attrs = call.attrs.as<SgdAttrs>();
  const auto all = [](double value) HWY_ATTR { return hn::Set(D(), static_cast<T>(value)); };
  const Sgd<D> sgd{all(attrs.momentum), hn::Set(d, *call.inputs[3].as<T>()), all(attrs.scale),
                   all(attrs.decay)};
  const T* w = call.inputs[0].as<T>();
  const T* g = call.inputs[1].as<T>();
  const T* m = call.inputs[2].as<T>();
  T* new_w = call.outputs[0].as<T>();
  T* new_m = call.outputs[1].as<T>();
  const auto count = static_cast<std::size_t>(call.outputs[0].numel());
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) sgd.step(w + i, g + i, m + i, new_w + i, new_m + i);
  if (i < count) sgd.rest(w + i, g + i, m + i, new_w + i, new_m + i, count - i);
}

void update_float32(const KernelCall& call) { update<float>(call); }
void update_float64(const KernelCall& call) { update<double>(call); }

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {

HWY_EXPORT(update_float32);
HWY_EXPORT(update_float64);

namespace {

void run_float32(const KernelCall& call) { return HWY_DYNAMIC_DISPATCH(update_float32)(call); }

void run_float64(const KernelCall& call) { return HWY_DYNAMIC_DISPATCH(update_float64)(call); }

}  // namespace

std::span<const KernelCandidate> sgd_momentum_kernels() {
  static constexpr KernelCandidate kKernels[] = {
      {.name = "highway", .dtypes = {DType::float32}, .direct = run_float32},
      {.name = "highway", .dtypes = {DType::float64}, .direct = run_float64}};
  return kKernels;
}

}  // namespace lockstep::kernels
#endif
