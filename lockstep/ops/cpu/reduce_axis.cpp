// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <type_traits>

#include "lockstep/ops/cpu/reduce.h"
#include "lockstep/ops/cpu/reduce_plan.h"
#include "lockstep/ops/reduce_attrs.h"

namespace lockstep::kernels {
namespace {

template <class T>
using Ordered =
    std::conditional_t<std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>, float, T>;

// NaN stands above (and below) every number, so that it is found, as in NumPy.
template <bool kLargest, class T>
bool beats(T challenger, T holder) {
  if constexpr (std::is_floating_point_v<T>)
    if (std::isnan(challenger)) return !std::isnan(holder);
  return kLargest ? challenger > holder : challenger < holder;
}

template <bool kLargest, class T>
void arg_extreme(const AxisPlan& plan, const T* x, std::int64_t* out) {
  using V = Ordered<T>;
  for (std::int64_t o = 0; o < plan.outer; ++o, x += plan.size * plan.inner, out += plan.inner) {
    for (std::int64_t j = 0; j < plan.inner; ++j) {
      V best = static_cast<V>(x[j]);
      std::int64_t at = 0;
      for (std::int64_t i = 1; i < plan.size; ++i) {
        const V value = static_cast<V>(x[i * plan.inner + j]);
        if (!beats<kLargest>(value, best)) continue;
        best = value;
        at = i;
      }
      out[j] = at;
    }
  }
}

template <bool kLargest>
void arg_kernel(const KernelCall& call) {
  const AxisPlan plan = plan_axis(call.inputs[0].shape, call.attrs.as<ArgAttrs>().axis);
  visit_dtype(call.inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    arg_extreme<kLargest>(plan, call.inputs[0].as<const T>(), call.outputs[0].as<std::int64_t>());
  });
}

template <class In, class Acc, class Out>
void cumsum_row(const In* x, Out* out, std::int64_t n, bool reverse) {
  Acc total{};
  const std::int64_t step = reverse ? -1 : 1;
  for (std::int64_t i = reverse ? n - 1 : 0; i >= 0 && i < n; i += step) {
    total += static_cast<Acc>(x[i]);
    out[i] = static_cast<Out>(total);
  }
}

// Running totals are kept wide, a strip of columns at a time.
template <class In, class Acc, class Out>
void cumsum_strip(const AxisPlan& plan, const In* x, Out* out, std::int64_t width, bool reverse) {
  std::array<Acc, 256> totals{};
  for (std::int64_t i = 0; i < plan.size; ++i) {
    const std::int64_t at = (reverse ? plan.size - 1 - i : i) * plan.inner;
    for (std::int64_t j = 0; j < width; ++j) {
      totals[static_cast<std::size_t>(j)] += static_cast<Acc>(x[at + j]);
      out[at + j] = static_cast<Out>(totals[static_cast<std::size_t>(j)]);
    }
  }
}

template <class In, class Acc, class Out>
void cumsum_of(const KernelCall& call) {
  const CumsumAttrs& attrs = call.attrs.as<CumsumAttrs>();
  const AxisPlan plan = plan_axis(call.inputs[0].shape, attrs.axis);
  const In* x = call.inputs[0].as<const In>();
  Out* out = call.outputs[0].as<Out>();
  const std::int64_t step = plan.size * plan.inner;
  for (std::int64_t o = 0; o < plan.outer; ++o, x += step, out += step) {
    if (plan.inner == 1) {
      cumsum_row<In, Acc, Out>(x, out, plan.size, attrs.reverse);
      continue;
    }
    for (std::int64_t j = 0; j < plan.inner; j += 256)
      cumsum_strip<In, Acc, Out>(plan, x + j, out + j, std::min<std::int64_t>(256, plan.inner - j),
                                 attrs.reverse);
  }
}

void cumsum_kernel(const KernelCall& call) {
  visit_dtype(call.inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_convertible_v<T, float> && !std::is_integral_v<T>)
      cumsum_of<T, double, T>(call);
    else
      cumsum_of<T, std::uint64_t, std::int64_t>(call);
  });
}

// Calls step(place, place before it or -1) along every line of the axis, in its direction.
template <class F>
void along_lines(const Shape& shape, const ScanAttrs& attrs, F&& step) {
  const AxisPlan plan = plan_axis(shape, attrs.axis);
  const std::int64_t back = attrs.reverse ? plan.inner : -plan.inner;
  for (std::int64_t o = 0; o < plan.outer; ++o)
    for (std::int64_t j = 0; j < plan.inner; ++j)
      for (std::int64_t i = 0; i < plan.size; ++i) {
        const std::int64_t t = attrs.reverse ? plan.size - 1 - i : i;
        const std::int64_t place = (o * plan.size + t) * plan.inner + j;
        step(place, i == 0 ? -1 : place + back);
      }
}

// The running product is kept wide.
template <class In, class Acc, class Out>
void cumprod_of(const KernelCall& call) {
  const In* x = call.inputs[0].as<const In>();
  Out* out = call.outputs[0].as<Out>();
  Acc product{};
  along_lines(call.inputs[0].shape, call.attrs.as<ScanAttrs>(),
              [&](std::int64_t at, std::int64_t before) {
                const Acc factor = static_cast<Acc>(x[at]);
                product = before < 0 ? factor : product * factor;
                out[at] = static_cast<Out>(product);
              });
}

void cumprod_kernel(const KernelCall& call) {
  visit_dtype(call.inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_convertible_v<T, float> && !std::is_integral_v<T>)
      cumprod_of<T, double, T>(call);
    else
      cumprod_of<T, std::uint64_t, std::int64_t>(call);
  });
}

template <class T>
void linear_scan_of(const KernelCall& call) {
  const T* a = call.inputs[0].as<const T>();
  const T* b = call.inputs[1].as<const T>();
  T* out = call.outputs[0].as<T>();
  double y = 0.0;
  along_lines(call.inputs[0].shape, call.attrs.as<ScanAttrs>(),
              [&](std::int64_t at, std::int64_t before) {
                const double added = static_cast<double>(b[at]);
                y = before < 0 ? added : static_cast<double>(a[at]) * y + added;
                out[at] = static_cast<T>(y);
              });
}

}  // namespace

std::span<const KernelCandidate> cumprod_kernels() {
  static constexpr KernelCandidate list[] = {{"plain", kAllTypes, cumprod_kernel}};
  return list;
}

std::span<const KernelCandidate> linear_scan_kernels() {
  static constexpr KernelCandidate list[] = {{"plain", {DType::float32}, linear_scan_of<float>},
                                             {"plain", {DType::float64}, linear_scan_of<double>}};
  return list;
}

std::span<const KernelCandidate> argmax_kernels() {
  static constexpr KernelCandidate list[] = {{"plain", kAllTypes, arg_kernel<true>}};
  return list;
}

std::span<const KernelCandidate> argmin_kernels() {
  static constexpr KernelCandidate list[] = {{"plain", kAllTypes, arg_kernel<false>}};
  return list;
}

std::span<const KernelCandidate> cumsum_kernels() {
  static constexpr KernelCandidate list[] = {{"plain", kAllTypes, cumsum_kernel}};
  return list;
}

}  // namespace lockstep::kernels
