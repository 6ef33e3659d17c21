// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/create.h"

#include <algorithm>

#include "lockstep/ops/create_attrs.h"

namespace lockstep::kernels {
namespace {

template <class F>
void with_output(const KernelCall& call, F&& f) {
  const TensorView& out = call.outputs[0];
  visit_dtype(out.dtype, [&](auto tag) { f(out.as<typename decltype(tag)::type>(), out.numel()); });
}

void full_kernel(const KernelCall& call) {
  const double value = call.attrs.as<FullAttrs>().value;
  with_output(call, [&](auto* out, std::int64_t n) {
    std::fill_n(out, n, static_cast<std::decay_t<decltype(*out)>>(value));
  });
}

void arange_kernel(const KernelCall& call) {
  const auto& attrs = call.attrs.as<ArangeAttrs>();
  with_output(call, [&](auto* out, std::int64_t n) {
    using T = std::decay_t<decltype(*out)>;
    for (std::int64_t i = 0; i < n; ++i)
      out[i] = static_cast<T>(attrs.start + static_cast<double>(i) * attrs.step);
  });
}

// The last value is `stop` itself, not what rounding makes of it.
void linspace_kernel(const KernelCall& call) {
  const auto& attrs = call.attrs.as<LinspaceAttrs>();
  with_output(call, [&](auto* out, std::int64_t n) {
    using T = std::decay_t<decltype(*out)>;
    const double step = n > 1 ? (attrs.stop - attrs.start) / static_cast<double>(n - 1) : 0.0;
    for (std::int64_t i = 0; i < n; ++i)
      out[i] = static_cast<T>(attrs.start + static_cast<double>(i) * step);
    if (n > 1) out[n - 1] = static_cast<T>(attrs.stop);
  });
}

void eye_kernel(const KernelCall& call) {
  const Shape& shape = call.outputs[0].shape;
  const std::int64_t diagonal = std::clamp(call.attrs.as<EyeAttrs>().diagonal, -shape[0], shape[1]);
  with_output(call, [&](auto* out, std::int64_t n) {
    using T = std::decay_t<decltype(*out)>;
    std::fill_n(out, n, static_cast<T>(0.0f));
    for (std::int64_t row = 0; row < shape[0]; ++row)
      if (row + diagonal >= 0 && row + diagonal < shape[1])
        out[row * shape[1] + row + diagonal] = static_cast<T>(1.0f);
  });
}

}  // namespace

std::span<const KernelCandidate> full_kernels() {
  static constexpr KernelCandidate list[] = {{"plain", kAllTypes, full_kernel}};
  return list;
}

std::span<const KernelCandidate> arange_kernels() {
  static constexpr KernelCandidate list[] = {{"plain", kAllTypes, arange_kernel}};
  return list;
}

std::span<const KernelCandidate> linspace_kernels() {
  static constexpr KernelCandidate list[] = {{"plain", kAllTypes, linspace_kernel}};
  return list;
}

std::span<const KernelCandidate> eye_kernels() {
  static constexpr KernelCandidate list[] = {{"plain", kAllTypes, eye_kernel}};
  return list;
}

}  // namespace lockstep::kernels
