// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/math_ops.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "lockstep/ops/cpu/loops.h"
#include "lockstep/ops/cpu/tile_run.h"

// Plain loops over the C library's functions: nothing here is on the way of training.
namespace lockstep::kernels {
namespace {

// Newton's method on erf(y) - x, in the tail on erfc, where the distance of x to 1 keeps its
// digits. It begins with Winitzki's approximation, whose relative error is below 4e-3; each step
// squares it.
double inverse_erf(double x) {
  const double far = std::fabs(x);
  if (far >= 1.0)
    return far == 1.0 ? std::copysign(HUGE_VAL, x) : std::numeric_limits<double>::quiet_NaN();
  if (far < 1e-8 || std::isnan(x)) return x * (0.5 / std::numbers::inv_sqrtpi);
  const double l = std::log1p(-far * far) * 0.5;
  const double t = 2.0 / (std::numbers::pi * 0.147) + l;
  double y = std::sqrt(std::sqrt(t * t - 2.0 * l / 0.147) - t);
  for (int step = 0; step < 4; ++step) {
    const double error = far < 0.5 ? std::erf(y) - far : (1.0 - far) - std::erfc(y);
    const double slope = 2.0 * std::numbers::inv_sqrtpi * std::exp(-y * y);
    y -= error / (slope + y * error);  // Halley's third order: erf'' = -2 y erf'
  }
  return std::copysign(y, x);
}

struct Exp2 {
  auto operator()(auto x) const { return std::exp2(x); }
};
struct Log2 {
  auto operator()(auto x) const { return std::log2(x); }
};
struct Log10 {
  auto operator()(auto x) const { return std::log10(x); }
};
struct Tan {
  auto operator()(auto x) const { return std::tan(x); }
};
struct Asin {
  auto operator()(auto x) const { return std::asin(x); }
};
struct Acos {
  auto operator()(auto x) const { return std::acos(x); }
};
struct Atan {
  auto operator()(auto x) const { return std::atan(x); }
};
struct Sinh {
  auto operator()(auto x) const { return std::sinh(x); }
};
struct Cosh {
  auto operator()(auto x) const { return std::cosh(x); }
};
struct Asinh {
  auto operator()(auto x) const { return std::asinh(x); }
};
struct Acosh {
  auto operator()(auto x) const { return std::acosh(x); }
};
struct Atanh {
  auto operator()(auto x) const { return std::atanh(x); }
};
struct Erfinv {
  template <class T>
  T operator()(T x) const {
    return static_cast<T>(inverse_erf(x));
  }
};
struct Trunc {
  template <class T>
  T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>)
      return std::trunc(x);
    else
      return x;
  }
};
struct Atan2 {
  auto operator()(auto a, auto b) const { return std::atan2(a, b); }
};
struct Hypot {
  auto operator()(auto a, auto b) const { return std::hypot(a, b); }
};

// The larger one, and what the other adds to it. Equal infinities have no distance.
struct Logaddexp {
  template <class T>
  T operator()(T a, T b) const {
    if (a == b) return a + static_cast<T>(std::numbers::ln2);
    return std::fmax(a, b) + std::log1p(std::exp(-std::fabs(a - b)));
  }
};

// Integers modulo 0 are 0, as remainder's.
struct Fmod {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      return std::fmod(a, b);
    } else {
      if (b == 0) return 0;
      if constexpr (std::is_signed_v<T>)
        if (b == -1) return 0;
      return static_cast<T>(a % b);
    }
  }
};

struct IsNan {
  bool operator()(auto x) const { return std::isnan(x); }
};
struct IsInf {
  bool operator()(auto x) const { return std::isinf(x); }
};
struct IsFinite {
  bool operator()(auto x) const { return std::isfinite(x); }
};

template <class F>
void visit_number(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float32: return f(TypeTag<float>{});
    case DType::float64: return f(TypeTag<double>{});
    case DType::int8: return f(TypeTag<std::int8_t>{});
    case DType::uint8: return f(TypeTag<std::uint8_t>{});
    case DType::int16: return f(TypeTag<std::int16_t>{});
    case DType::int32: return f(TypeTag<std::int32_t>{});
    case DType::int64: return f(TypeTag<std::int64_t>{});
    default: fail_check("not a number dtype");
  }
}

template <class F>
void run_floats(const KernelCall& call) {
  if (call.inputs[0].dtype == DType::float32)
    map_unary<float, float>(call, F{});
  else
    map_unary<double, double>(call, F{});
}

template <class F>
void run_numbers(const KernelCall& call) {
  visit_number(call.inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    map_unary<T, T>(call, F{});
  });
}

template <class F>
void run_float_pairs(const KernelCall& call) {
  if (call.inputs[0].dtype == DType::float32)
    map_binary<float, float>(call, F{});
  else
    map_binary<double, double>(call, F{});
}

template <class F>
void run_number_pairs(const KernelCall& call) {
  visit_number(call.inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    map_binary<T, T>(call, F{});
  });
}

template <class F>
void run_tests(const KernelCall& call) {
  visit_dtype(call.inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    map_unary<T, bool>(call, [](T x) {
      if constexpr (std::is_integral_v<T>)
        return F{}(0.0f);
      else if constexpr (std::is_same_v<T, double>)
        return F{}(x);
      else
        return F{}(static_cast<float>(x));
    });
  });
}

constexpr DTypeSet kFloats{DType::float32, DType::float64};

template <class F>
constexpr KernelCandidate kUnary[] = {loop_kernel(run_floats<F>, kFloats)};
template <class F>
constexpr KernelCandidate kNumbers[] = {loop_kernel(run_numbers<F>, kFloats | kIntTypes)};
template <class F>
constexpr KernelCandidate kPairs[] = {loop_kernel(run_float_pairs<F>, kFloats)};
template <class F>
constexpr KernelCandidate kNumberPairs[] = {loop_kernel(run_number_pairs<F>, kFloats | kIntTypes)};
template <class F>
constexpr KernelCandidate kTests[] = {loop_kernel(run_tests<F>, kAllTypes)};

struct Row {
  std::string_view op;
  std::span<const KernelCandidate> kernels;
};

constexpr Row kRows[] = {
    {"exp2", kUnary<Exp2>},       {"log2", kUnary<Log2>},     {"log10", kUnary<Log10>},
    {"tan", kUnary<Tan>},         {"asin", kUnary<Asin>},     {"acos", kUnary<Acos>},
    {"atan", kUnary<Atan>},       {"sinh", kUnary<Sinh>},     {"cosh", kUnary<Cosh>},
    {"asinh", kUnary<Asinh>},     {"acosh", kUnary<Acosh>},   {"atanh", kUnary<Atanh>},
    {"erfinv", kUnary<Erfinv>},   {"trunc", kNumbers<Trunc>}, {"isnan", kTests<IsNan>},
    {"isinf", kTests<IsInf>},     {"atan2", kPairs<Atan2>},   {"isfinite", kTests<IsFinite>},
    {"fmod", kNumberPairs<Fmod>}, {"hypot", kPairs<Hypot>},   {"logaddexp", kPairs<Logaddexp>},
};

}  // namespace

std::span<const KernelCandidate> math_kernels(std::string_view op) {
  for (const Row& row : kRows)
    if (row.op == op) return row.kernels;
  fail_check("no such kernel of a mathematical function");
}

}  // namespace lockstep::kernels
