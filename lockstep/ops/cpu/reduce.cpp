// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/reduce.h"

#include <cmath>
#include <limits>
#include <type_traits>

#include "lockstep/ops/cpu/reduce_plan.h"
#include "lockstep/ops/reduce_attrs.h"

namespace lockstep::kernels {
namespace {

constexpr DTypeSet kSimdTypes{DType::float32, DType::float64};
constexpr DTypeSet kExactTypes = kIntTypes | DTypeSet{DType::boolean};

// Where the order of operations does not matter: the compiler may vectorise as it likes.
template <class I, class A, class O, class Op>
struct PlainReducer {
  using In = I;
  using Acc = A;
  using Out = O;
  A start;
  double divisor = 1.0;

  bool foldable() const { return true; }
  A initial() const { return start; }
  A combine(A a, A b) const { return Op{}(a, b); }
  O finish(A total, std::int64_t) const {
    if constexpr (std::is_same_v<O, float> && std::is_same_v<A, std::int64_t>)
      return static_cast<O>(static_cast<double>(total) / divisor);
    else
      return static_cast<O>(total);
  }
  A row(const I* x, std::int64_t n, std::int64_t) const {
    A total = start;
    for (std::int64_t i = 0; i < n; ++i) total = Op{}(total, static_cast<A>(x[i]));
    return total;
  }
  void rows(const I* x, std::int64_t stride, std::int64_t count, std::int64_t width, std::int64_t,
            A* totals) const {
    for (std::int64_t i = 0; i < count; ++i, x += stride)
      for (std::int64_t j = 0; j < width; ++j) totals[j] = Op{}(totals[j], static_cast<A>(x[j]));
  }
};

struct Add {
  std::int64_t operator()(std::int64_t a, std::int64_t b) const {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  }
};
struct Multiply {
  double operator()(double a, double b) const { return a * b; }
  std::int64_t operator()(std::int64_t a, std::int64_t b) const {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  }
};
struct Larger {
  template <class T>
  T operator()(T a, T b) const {
    return b > a ? b : a;
  }
};
struct Smaller {
  template <class T>
  T operator()(T a, T b) const {
    return b < a ? b : a;
  }
};

template <class F>
void visit_exact(DType dtype, F&& f) {
  switch (dtype) {
    case DType::int8: return f(std::int8_t{});
    case DType::uint8: return f(std::uint8_t{});
    case DType::int16: return f(std::int16_t{});
    case DType::int32: return f(std::int32_t{});
    case DType::int64: return f(std::int64_t{});
    default: return f(false);
  }
}

template <class R>
void run(const KernelCall& call, R reducer) {
  ReducePlan plan = plan_reduction(call.inputs[0].shape, call.attrs.as<ReduceAttrs>().axes);
  reducer.divisor = static_cast<double>(plan.count);
  reduce(plan, reducer, call.inputs[0].as<const typename R::In>(),
         call.outputs[0].as<typename R::Out>());
}

void sum_exact(const KernelCall& call) {
  visit_exact(call.inputs[0].dtype, [&](auto t) {
    run(call, PlainReducer<decltype(t), std::int64_t, std::int64_t, Add>{0});
  });
}

void mean_exact(const KernelCall& call) {
  visit_exact(call.inputs[0].dtype,
              [&](auto t) { run(call, PlainReducer<decltype(t), std::int64_t, float, Add>{0}); });
}

void prod_exact(const KernelCall& call) {
  visit_exact(call.inputs[0].dtype, [&](auto t) {
    run(call, PlainReducer<decltype(t), std::int64_t, std::int64_t, Multiply>{1});
  });
}

void prod_floats(const KernelCall& call) {
  if (call.inputs[0].dtype == DType::float32)
    run(call, PlainReducer<float, double, float, Multiply>{1.0});
  else
    run(call, PlainReducer<double, double, double, Multiply>{1.0});
}

void max_exact(const KernelCall& call) {
  visit_exact(call.inputs[0].dtype, [&](auto t) {
    using T = decltype(t);
    run(call, PlainReducer<T, T, T, Larger>{std::numeric_limits<T>::lowest()});
  });
}

void min_exact(const KernelCall& call) {
  visit_exact(call.inputs[0].dtype, [&](auto t) {
    using T = decltype(t);
    run(call, PlainReducer<T, T, T, Smaller>{std::numeric_limits<T>::max()});
  });
}

void stddev_floats(const KernelCall& call) {
  var_floats(call);
  const TensorView& out = call.outputs[0];
  const auto root = [&](auto* y) {
    for (std::int64_t i = 0; i < out.numel(); ++i) y[i] = std::sqrt(y[i]);
  };
  if (out.dtype == DType::float32)
    root(out.as<float>());
  else
    root(out.as<double>());
}

constexpr DTypeSet kBool{DType::boolean};

}  // namespace

std::span<const KernelCandidate> any_kernels() {
  static constexpr KernelCandidate list[] = {{"exact", kBool, max_exact}};
  return list;
}

std::span<const KernelCandidate> all_kernels() {
  static constexpr KernelCandidate list[] = {{"exact", kBool, min_exact}};
  return list;
}

std::span<const KernelCandidate> stddev_kernels() {
  static constexpr KernelCandidate list[] = {{"simd", kSimdTypes, stddev_floats}};
  return list;
}

std::span<const KernelCandidate> sum_kernels() {
  static constexpr KernelCandidate list[] = {{"simd", kSimdTypes, sum_floats},
                                             {"exact", kExactTypes, sum_exact}};
  return list;
}

std::span<const KernelCandidate> mean_kernels() {
  static constexpr KernelCandidate list[] = {{"simd", kSimdTypes, mean_floats},
                                             {"exact", kExactTypes, mean_exact}};
  return list;
}

std::span<const KernelCandidate> prod_kernels() {
  static constexpr KernelCandidate list[] = {{"plain", kSimdTypes, prod_floats},
                                             {"exact", kExactTypes, prod_exact}};
  return list;
}

std::span<const KernelCandidate> max_kernels() {
  static constexpr KernelCandidate list[] = {{"simd", kSimdTypes, max_floats},
                                             {"exact", kExactTypes, max_exact}};
  return list;
}

std::span<const KernelCandidate> min_kernels() {
  static constexpr KernelCandidate list[] = {{"simd", kSimdTypes, min_floats},
                                             {"exact", kExactTypes, min_exact}};
  return list;
}

std::span<const KernelCandidate> var_kernels() {
  static constexpr KernelCandidate list[] = {{"simd", kSimdTypes, var_floats}};
  return list;
}

std::span<const KernelCandidate> norm_kernels() {
  static constexpr KernelCandidate list[] = {{"simd", kSimdTypes, norm_floats}};
  return list;
}

std::span<const KernelCandidate> logsumexp_kernels() {
  static constexpr KernelCandidate list[] = {{"simd", kSimdTypes, logsumexp_floats}};
  return list;
}

}  // namespace lockstep::kernels
