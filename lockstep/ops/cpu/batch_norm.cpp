// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "lockstep/ops/cpu/norm.h"
#include "lockstep/ops/norm.h"

// The reference: plain loops, sums in double.
namespace lockstep::kernels {
namespace {

// x as [batch, channels, size].
struct Channels {
  explicit Channels(const Shape& x) : batch(x[0]), channels(x[1]) {
    size = x.numel() == 0 ? 0 : x.numel() / (batch * channels);
  }
  double count() const { return static_cast<double>(std::max<std::int64_t>(batch * size, 1)); }
  // Calls f(i) for each element of channel c.
  template <class F>
  void each(std::int64_t c, F&& f) const {
    for (std::int64_t n = 0; n < batch; ++n) {
      const std::int64_t begin = (n * channels + c) * size;
      for (std::int64_t i = begin; i < begin + size; ++i) f(i);
    }
  }

  std::int64_t batch, channels, size;
};

template <class T>
void run_batch_norm(const KernelCall& call) {
  const BatchNormAttrs& attrs = call.attrs.as<BatchNormAttrs>();
  const Channels shape(call.inputs[0].shape);
  const T* x = call.inputs[0].as<T>();
  T* y = call.outputs[0].as<T>();
  auto* passed = attrs.relu ? call.outputs[3].as<std::uint8_t>() : nullptr;
  for (std::int64_t c = 0; c < shape.channels; ++c) {
    double sum = 0, squares = 0;
    shape.each(c, [&](std::int64_t i) { sum += static_cast<double>(x[i]); });
    const double mean = sum / shape.count();
    shape.each(c,
               [&](std::int64_t i) { squares += std::pow(static_cast<double>(x[i]) - mean, 2); });
    const double var = squares / shape.count();
    const double scale =
        static_cast<double>(call.inputs[1].as<T>()[c]) / std::sqrt(var + attrs.epsilon);
    const auto shift = static_cast<double>(call.inputs[2].as<T>()[c]);
    shape.each(c, [&](std::int64_t i) {
      const double value = (static_cast<double>(x[i]) - mean) * scale + shift;
      if (passed != nullptr) passed[i] = value <= 0 ? 0 : 1;
      y[i] = static_cast<T>(passed != nullptr && value <= 0 ? 0.0 : value);
    });
    call.outputs[1].as<T>()[c] = static_cast<T>(mean);
    call.outputs[2].as<T>()[c] = static_cast<T>(var);
  }
}

template <class T>
void run_batch_norm_backward(const KernelCall& call) {
  const BatchNormAttrs& attrs = call.attrs.as<BatchNormAttrs>();
  const Channels shape(call.inputs[1].shape);
  const T* dy = call.inputs[0].as<T>();
  const T* x = call.inputs[1].as<T>();
  const auto* passed = attrs.relu ? call.inputs[5].as<std::uint8_t>() : nullptr;
  const auto grad = [&](std::int64_t i) {
    return passed != nullptr && passed[i] == 0 ? 0.0 : static_cast<double>(dy[i]);
  };
  for (std::int64_t c = 0; c < shape.channels; ++c) {
    const auto mean = static_cast<double>(call.inputs[3].as<T>()[c]);
    const double rstd =
        1.0 / std::sqrt(static_cast<double>(call.inputs[4].as<T>()[c]) + attrs.epsilon);
    const auto normal = [&](std::int64_t i) { return (static_cast<double>(x[i]) - mean) * rstd; };
    double dgamma = 0, dbeta = 0;
    shape.each(c, [&](std::int64_t i) {
      dgamma += grad(i) * normal(i);
      dbeta += grad(i);
    });
    const double scale = static_cast<double>(call.inputs[2].as<T>()[c]) * rstd;
    shape.each(c, [&](std::int64_t i) {
      const double common = (dbeta + normal(i) * dgamma) / shape.count();
      call.outputs[0].as<T>()[i] = static_cast<T>(scale * (grad(i) - common));
    });
    call.outputs[1].as<T>()[c] = static_cast<T>(dgamma);
    call.outputs[2].as<T>()[c] = static_cast<T>(dbeta);
  }
}

template <class T>
void run_batch_norm_inference(const KernelCall& call) {
  const Channels shape(call.inputs[0].shape);
  const T* x = call.inputs[0].as<T>();
  T* y = call.outputs[0].as<T>();
  const auto value = [&](std::size_t input, std::int64_t c) {
    return static_cast<double>(call.inputs[input].as<T>()[c]);
  };
  for (std::int64_t c = 0; c < shape.channels; ++c) {
    const double scale =
        value(1, c) / std::sqrt(value(4, c) + call.attrs.as<EpsilonAttrs>().epsilon);
    const double mean = value(3, c), shift = value(2, c);
    shape.each(c, [&](std::int64_t i) {
      y[i] = static_cast<T>((static_cast<double>(x[i]) - mean) * scale + shift);
    });
  }
}

}  // namespace

std::span<const KernelCandidate> batch_norm_kernels() {
  static const KernelCandidate kernels[] = {
      {"onednn", {DType::float32}, nullptr, prepare_batch_norm},
      {"reference", {DType::float32}, run_batch_norm<float>},
      {"reference", {DType::float64}, run_batch_norm<double>},
  };
  return kernels;
}

std::span<const KernelCandidate> batch_norm_backward_kernels() {
  static const KernelCandidate kernels[] = {
      {"onednn", {DType::float32}, nullptr, prepare_batch_norm_backward},
      {"reference", {DType::float32}, run_batch_norm_backward<float>},
      {"reference", {DType::float64}, run_batch_norm_backward<double>},
  };
  return kernels;
}

std::span<const KernelCandidate> batch_norm_inference_kernels() {
  static const KernelCandidate kernels[] = {
      {"onednn", {DType::float32}, nullptr, prepare_batch_norm_inference},
      {"reference", {DType::float32}, run_batch_norm_inference<float>},
      {"reference", {DType::float64}, run_batch_norm_inference<double>},
  };
  return kernels;
}

}  // namespace lockstep::kernels
