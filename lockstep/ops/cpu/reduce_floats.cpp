// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "lockstep/ops/cpu/reduce.h"
#include "lockstep/ops/cpu/reduce_plan.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lockstep/ops/cpu/reduce_floats.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "lockstep/ops/cpu/rows-inl.h"
#include "lockstep/ops/reduce_attrs.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels {
namespace HWY_NAMESPACE {

// What is summed: a function of an element and of a number that belongs to the output.
struct Itself {
  template <class D, class V>
  HWY_INLINE V operator()(D, V x, V) const {
    return x;
  }
};
struct Magnitude {
  template <class D, class V>
  HWY_INLINE V operator()(D, V x, V) const {
    return hn::Abs(x);
  }
};
struct Squared {
  template <class D, class V>
  HWY_INLINE V operator()(D, V x, V) const {
    return hn::Mul(x, x);
  }
};
struct SquaredDistance {
  template <class D, class V>
  HWY_INLINE V operator()(D, V x, V centre) const {
    const V d = hn::Sub(x, centre);
    return hn::Mul(d, d);
  }
};
struct ExpOfDifference {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, V most) const {
    return exp_or_nan(d, hn::Sub(x, most));
  }
};

// Sums of f(x). Short runs are added in T, in several chains; the runs' sums are added in double.
// So the error does not grow with the number of elements, at the price of one conversion a run.
template <class T, class F, class Finish>
struct SumReducer {
  using In = T;
  using Acc = double;
  using Out = T;
  F f;
  Finish finish_;
  const T* parameters = nullptr;  // one for each output, or none

  static constexpr std::int64_t kRunSteps = 32;  // additions in one chain
  static constexpr std::int64_t kRunRows = 64;

  bool foldable() const { return parameters == nullptr; }
  double initial() const { return 0.0; }
  double combine(double a, double b) const { return a + b; }
  T finish(double total, std::int64_t output) const {
    return finish_(total, parameters == nullptr ? T{0} : parameters[output]);
  }

  double row(const T* x, std::int64_t n, std::int64_t output) const {
    const auto length = static_cast<std::int64_t>(4 * hn::Lanes(hn::ScalableTag<T>())) * kRunSteps;
    double total = 0.0;
    for (std::int64_t i = 0; i < n; i += length)
      total += run(x + i, static_cast<std::size_t>(std::min(length, n - i)), output);
    return total;
  }

  HWY_INLINE double run(const T* x, std::size_t n, std::int64_t output) const {
    const hn::ScalableTag<T> d;
    using V = hn::Vec<decltype(d)>;
    const std::size_t lanes = hn::Lanes(d);
    const V p = hn::Set(d, parameters == nullptr ? T{0} : parameters[output]);
    V a0 = hn::Zero(d), a1 = hn::Zero(d), a2 = hn::Zero(d), a3 = hn::Zero(d);
    std::size_t i = 0;
    for (; i + 4 * lanes <= n; i += 4 * lanes) {
      a0 = hn::Add(a0, f(d, hn::LoadU(d, x + i), p));
      a1 = hn::Add(a1, f(d, hn::LoadU(d, x + i + lanes), p));
      a2 = hn::Add(a2, f(d, hn::LoadU(d, x + i + 2 * lanes), p));
      a3 = hn::Add(a3, f(d, hn::LoadU(d, x + i + 3 * lanes), p));
    }
    for (; i + lanes <= n; i += lanes) a0 = hn::Add(a0, f(d, hn::LoadU(d, x + i), p));
    if (i < n) {
      const V v = f(d, load_part(d, x + i, n - i), p);
      a1 = hn::Add(a1, hn::IfThenElseZero(hn::FirstN(d, n - i), v));
    }
    return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a0, a1), hn::Add(a2, a3))));
  }

  void rows(const T* x, std::int64_t stride, std::int64_t count, std::int64_t width,
            std::int64_t output, double* totals) const {
    for (std::int64_t i = 0; i < count; i += kRunRows)
      run_rows(x + i * stride, stride, std::min(kRunRows, count - i), width, output, totals);
  }

  HWY_INLINE void run_rows(const T* x, std::int64_t stride, std::int64_t count, std::int64_t width,
                           std::int64_t output, double* totals) const {
    HWY_ALIGN T sums[kReduceChunk];
    std::fill_n(sums, width, T{0});
    const T* p = parameters == nullptr ? nullptr : parameters + output;
    std::int64_t i = 0;
    for (; i + 4 <= count; i += 4) add_rows<4>(x + i * stride, stride, width, p, sums);
    for (; i < count; ++i) add_rows<1>(x + i * stride, stride, width, p, sums);
    for (std::int64_t j = 0; j < width; ++j) totals[j] += sums[j];
  }

  template <int kRows>
  HWY_INLINE void add_rows(const T* x, std::int64_t stride, std::int64_t width, const T* p,
                           T* sums) const {
    const hn::ScalableTag<T> d;
    using V = hn::Vec<decltype(d)>;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    std::int64_t j = 0;
    for (; j + lanes <= width; j += lanes) {
      const V parameter = p == nullptr ? hn::Zero(d) : hn::LoadU(d, p + j);
      V v = f(d, hn::LoadU(d, x + j), parameter);
      if constexpr (kRows == 4) {
        const V v1 = f(d, hn::LoadU(d, x + stride + j), parameter);
        const V v2 = f(d, hn::LoadU(d, x + 2 * stride + j), parameter);
        const V v3 = f(d, hn::LoadU(d, x + 3 * stride + j), parameter);
        v = hn::Add(hn::Add(v, v1), hn::Add(v2, v3));
      }
      hn::Store(hn::Add(hn::Load(d, sums + j), v), d, sums + j);
    }
    if (j == width) return;
    const auto rest = static_cast<std::size_t>(width - j);
    const V parameter = p == nullptr ? hn::Zero(d) : load_part(d, p + j, rest);
    V total = load_part(d, sums + j, rest);
    for (int r = 0; r < kRows; ++r)
      total = hn::Add(total, f(d, load_part(d, x + r * stride + j, rest), parameter));
    store_part(d, total, sums + j, rest);
  }
};

template <class T, bool kLargest>
struct ExtremeReducer {
  using In = T;
  using Acc = T;
  using Out = T;

  bool foldable() const { return true; }
  T initial() const { return least_extreme<kLargest, T>(); }
  T combine(T a, T b) const { return scalar_extreme<kLargest>(a, b); }
  T finish(T total, std::int64_t) const { return total; }
  T row(const T* x, std::int64_t n, std::int64_t) const { return row_extreme<kLargest>(x, n); }

  void rows(const T* x, std::int64_t stride, std::int64_t count, std::int64_t width, std::int64_t,
            T* totals) const {
    const hn::ScalableTag<T> d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    for (std::int64_t i = 0; i < count; ++i, x += stride) {
      std::int64_t j = 0;
      for (; j + lanes <= width; j += lanes) {
        const auto v = extreme<kLargest>(hn::LoadU(d, totals + j), hn::LoadU(d, x + j));
        hn::StoreU(v, d, totals + j);
      }
      for (; j < width; ++j) totals[j] = combine(totals[j], x[j]);
    }
  }
};

struct Total {
  template <class T>
  T operator()(double total, T) const {
    return static_cast<T>(total);
  }
};
struct Quotient {
  double divisor;
  template <class T>
  T operator()(double total, T) const {
    return static_cast<T>(total / divisor);
  }
};
struct Root {
  template <class T>
  T operator()(double total, T) const {
    return static_cast<T>(std::sqrt(total));
  }
};
struct LogPlus {
  template <class T>
  T operator()(double total, T most) const {
    return std::isfinite(most) ? static_cast<T>(std::log(total) + most) : most;
  }
};

template <class T, class F, class Finish>
void sum_of(const KernelCall& call, const ReducePlan& plan, F f, Finish finish,
            const T* parameters = nullptr) {
  const SumReducer<T, F, Finish> reducer{f, finish, parameters};
  reduce(plan, reducer, call.inputs[0].as<const T>(), call.outputs[0].as<T>());
}

template <class T, bool kLargest>
void extreme_of(const KernelCall& call, const ReducePlan& plan) {
  reduce(plan, ExtremeReducer<T, kLargest>{}, call.inputs[0].as<const T>(),
         call.outputs[0].as<T>());
}

template <class T>
void norm_of(const KernelCall& call) {
  const NormAttrs& attrs = call.attrs.as<NormAttrs>();
  const ReducePlan plan = plan_reduction(call.inputs[0].shape, attrs.axes);
  if (attrs.ord == 1)
    sum_of<T>(call, plan, Magnitude{}, Total{});
  else
    sum_of<T>(call, plan, Squared{}, Root{});
}

// Two passes: the mean lands in the output, then serves as the centre.
template <class T>
void var_of(const KernelCall& call) {
  const VarAttrs& attrs = call.attrs.as<VarAttrs>();
  const ReducePlan plan = plan_reduction(call.inputs[0].shape, attrs.axes);
  const auto count = static_cast<double>(plan.count);
  sum_of<T>(call, plan, Itself{}, Quotient{count});
  sum_of<T>(call, plan, SquaredDistance{}, Quotient{std::max(0.0, count - attrs.ddof)},
            call.outputs[0].as<const T>());
}

// Two passes: the largest element lands in the output, then is taken out of the exponents.
template <class T>
void logsumexp_of(const KernelCall& call, const ReducePlan& plan) {
  extreme_of<T, true>(call, plan);
  sum_of<T>(call, plan, ExpOfDifference{}, LogPlus{}, call.outputs[0].as<const T>());
}

template <class F>
void with_float_type(const KernelCall& call, F&& f) {
  if (call.inputs[0].dtype == DType::float32)
    f(float{});
  else
    f(double{});
}

ReducePlan plan_of(const KernelCall& call) {
  return plan_reduction(call.inputs[0].shape, call.attrs.as<ReduceAttrs>().axes);
}

void SumFloats(const KernelCall& call) {
  with_float_type(call,
                  [&](auto t) { sum_of<decltype(t)>(call, plan_of(call), Itself{}, Total{}); });
}
void MeanFloats(const KernelCall& call) {
  const ReducePlan plan = plan_of(call);
  const Quotient quotient{static_cast<double>(plan.count)};
  with_float_type(call, [&](auto t) { sum_of<decltype(t)>(call, plan, Itself{}, quotient); });
}
void MaxFloats(const KernelCall& call) {
  with_float_type(call, [&](auto t) { extreme_of<decltype(t), true>(call, plan_of(call)); });
}
void MinFloats(const KernelCall& call) {
  with_float_type(call, [&](auto t) { extreme_of<decltype(t), false>(call, plan_of(call)); });
}
void VarFloats(const KernelCall& call) {
  with_float_type(call, [&](auto t) { var_of<decltype(t)>(call); });
}
void NormFloats(const KernelCall& call) {
  with_float_type(call, [&](auto t) { norm_of<decltype(t)>(call); });
}
void LogsumexpFloats(const KernelCall& call) {
  with_float_type(call, [&](auto t) { logsumexp_of<decltype(t)>(call, plan_of(call)); });
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {

HWY_EXPORT(SumFloats);
HWY_EXPORT(MeanFloats);
HWY_EXPORT(MaxFloats);
HWY_EXPORT(MinFloats);
HWY_EXPORT(VarFloats);
HWY_EXPORT(NormFloats);
HWY_EXPORT(LogsumexpFloats);

void sum_floats(const KernelCall& call) { HWY_DYNAMIC_DISPATCH(SumFloats)(call); }
void mean_floats(const KernelCall& call) { HWY_DYNAMIC_DISPATCH(MeanFloats)(call); }
void max_floats(const KernelCall& call) { HWY_DYNAMIC_DISPATCH(MaxFloats)(call); }
void min_floats(const KernelCall& call) { HWY_DYNAMIC_DISPATCH(MinFloats)(call); }
void var_floats(const KernelCall& call) { HWY_DYNAMIC_DISPATCH(VarFloats)(call); }
void norm_floats(const KernelCall& call) { HWY_DYNAMIC_DISPATCH(NormFloats)(call); }
void logsumexp_floats(const KernelCall& call) { HWY_DYNAMIC_DISPATCH(LogsumexpFloats)(call); }

}  // namespace lockstep::kernels
#endif
