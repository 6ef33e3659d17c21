// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/update.h"

namespace lockstep::kernels {
namespace {

template <class T>
void update(const KernelCall& call) {
  const auto& attrs = call.attrs.as<SgdAttrs>();
  const T momentum = static_cast<T>(attrs.momentum);
  const T decay = static_cast<T>(attrs.decay);
  const T scale = static_cast<T>(attrs.scale);
  const T* weight = call.inputs[0].as<T>();
  const T* gradient = call.inputs[1].as<T>();
  const T* buffer = call.inputs[2].as<T>();
  const T rate = *call.inputs[3].as<T>();
  T* new_weight = call.outputs[0].as<T>();
  T* new_buffer = call.outputs[1].as<T>();
  const std::int64_t count = call.outputs[0].numel();
  for (std::int64_t i = 0; i < count; ++i) {
    const T m = momentum * buffer[i] - rate * (scale * gradient[i] + decay * weight[i]);
    new_weight[i] = weight[i] + m;
    new_buffer[i] = m;
  }
}

constexpr KernelCandidate kKernels[] = {
    {.name = "loop", .dtypes = {DType::float32}, .direct = update<float>},
    {.name = "loop", .dtypes = {DType::float64}, .direct = update<double>},
};

}  // namespace

std::span<const KernelCandidate> sgd_momentum_kernels() { return kKernels; }

}  // namespace lockstep::kernels
