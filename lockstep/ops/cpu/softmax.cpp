// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/softmax.h"

#include "lockstep/ops/cpu/reduce_plan.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lockstep/ops/cpu/softmax.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "lockstep/ops/cpu/rows-inl.h"
#include "lockstep/ops/softmax_attrs.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels {
namespace HWY_NAMESPACE {

// Each op has two forms: `row` where the axis is the last one, and `columns`, which works on as
// many neighbouring rows at once as a vector has lanes, where it is not.

template <class D>
struct Column {
  using T = hn::TFromD<D>;
  std::int64_t step;   // between elements of a row
  std::int64_t width;  // valid lanes

  HWY_INLINE hn::Vec<D> load(const T* x, std::int64_t i) const {
    return load_at(D(), x, i * step, width);
  }
  HWY_INLINE void store(hn::Vec<D> v, T* x, std::int64_t i) const {
    store_at(D(), v, x, i * step, width);
  }
};

template <class T>
struct StoreExp {
  T most;
  T* y;
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, hn::Vec<D> v, std::int64_t i, std::int64_t count) const {
    const auto e = exp_or_nan(d, hn::Sub(v, hn::Set(d, most)));
    store_at(d, e, y, i, count);
    return e;
  }
};

template <class T>
struct Scaled {
  T factor;
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, hn::Vec<D> v, std::int64_t, std::int64_t) const {
    return hn::Mul(v, hn::Set(d, factor));
  }
};

// The largest is taken away first: added to the logarithm, it would swallow it where it is large.
template <class T>
struct Lowered {
  T most, log_sum;
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, hn::Vec<D> v, std::int64_t, std::int64_t) const {
    return hn::Sub(hn::Sub(v, hn::Set(d, most)), hn::Set(d, log_sum));
  }
};

template <class T>
struct Softmax {
  static void row(const T* x, const T*, T* y, std::int64_t n) {
    const T total = sum_of_row(x, n, StoreExp<T>{row_extreme<true>(x, n), y});
    map_row(y, y, n, Scaled<T>{T{1} / total});
  }

  template <class D>
  static void columns(Column<D> c, const T* x, const T*, T* y, std::int64_t n) {
    const D d;
    auto most = hn::Set(d, least_extreme<true, T>());
    for (std::int64_t i = 0; i < n; ++i) most = extreme<true>(most, c.load(x, i));
    auto total = hn::Zero(d);
    for (std::int64_t i = 0; i < n; ++i) {
      const auto e = exp_or_nan(d, hn::Sub(c.load(x, i), most));
      c.store(e, y, i);
      total = hn::Add(total, e);
    }
    const auto factor = hn::Div(hn::Set(d, T{1}), total);
    for (std::int64_t i = 0; i < n; ++i) c.store(hn::Mul(c.load(y, i), factor), y, i);
  }
};

template <class T>
struct LogSoftmax {
  static void row(const T* x, const T*, T* y, std::int64_t n) {
    const T most = row_extreme<true>(x, n);
    const T total = sum_of_row(x, n, ExpMinus<T>{most});
    map_row(x, y, n, Lowered<T>{most, std::log(total)});
  }

  template <class D>
  static void columns(Column<D> c, const T* x, const T*, T* y, std::int64_t n) {
    const D d;
    auto most = hn::Set(d, least_extreme<true, T>());
    for (std::int64_t i = 0; i < n; ++i) most = extreme<true>(most, c.load(x, i));
    auto total = hn::Zero(d);
    for (std::int64_t i = 0; i < n; ++i)
      total = hn::Add(total, exp_or_nan(d, hn::Sub(c.load(x, i), most)));
    const auto log_sum = log_or_nan(d, total);
    for (std::int64_t i = 0; i < n; ++i)
      c.store(hn::Sub(hn::Sub(c.load(x, i), most), log_sum), y, i);
  }
};

template <class T>
struct TimesOther {
  const T* other;
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, hn::Vec<D> v, std::int64_t i, std::int64_t count) const {
    return hn::Mul(v, load_at(d, other, i, count));
  }
};

// y * (g - sum(g * y))
template <class T>
struct SoftmaxBackward {
  struct Combine {
    const T* y;
    T dot;
    template <class D>
    HWY_INLINE hn::Vec<D> operator()(D d, hn::Vec<D> g, std::int64_t i, std::int64_t count) const {
      return hn::Mul(load_at(d, y, i, count), hn::Sub(g, hn::Set(d, dot)));
    }
  };

  static void row(const T* g, const T* y, T* out, std::int64_t n) {
    map_row(g, out, n, Combine{y, sum_of_row(g, n, TimesOther<T>{y})});
  }

  template <class D>
  static void columns(Column<D> c, const T* g, const T* y, T* out, std::int64_t n) {
    auto dot = hn::Zero(D());
    for (std::int64_t i = 0; i < n; ++i) dot = hn::MulAdd(c.load(g, i), c.load(y, i), dot);
    for (std::int64_t i = 0; i < n; ++i)
      c.store(hn::Mul(c.load(y, i), hn::Sub(c.load(g, i), dot)), out, i);
  }
};

// g - exp(y) * sum(g)
template <class T>
struct LogSoftmaxBackward {
  struct Combine {
    const T* y;
    T total;
    template <class D>
    HWY_INLINE hn::Vec<D> operator()(D d, hn::Vec<D> g, std::int64_t i, std::int64_t count) const {
      return hn::NegMulAdd(exp_or_nan(d, load_at(d, y, i, count)), hn::Set(d, total), g);
    }
  };

  static void row(const T* g, const T* y, T* out, std::int64_t n) {
    map_row(g, out, n, Combine{y, sum_of_row(g, n, Scaled<T>{T{1}})});
  }

  template <class D>
  static void columns(Column<D> c, const T* g, const T* y, T* out, std::int64_t n) {
    const D d;
    auto total = hn::Zero(d);
    for (std::int64_t i = 0; i < n; ++i) total = hn::Add(total, c.load(g, i));
    for (std::int64_t i = 0; i < n; ++i)
      c.store(hn::NegMulAdd(exp_or_nan(d, c.load(y, i)), total, c.load(g, i)), out, i);
  }
};

template <class Op, class T>
void run_columns(const AxisPlan& plan, const T* a, const T* b, T* out) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t j = 0; j < plan.inner; j += lanes) {
    const Column<decltype(d)> column{plan.inner, std::min(lanes, plan.inner - j)};
    Op::columns(column, a + j, b + j, out + j, plan.size);
  }
}

template <class Op, class T>
void run_op(const KernelCall& call) {
  const AxisPlan plan = plan_axis(call.inputs[0].shape, call.attrs.as<SoftmaxAttrs>().axis);
  if (plan.size == 0) return;
  const T* a = call.inputs[0].as<const T>();
  const T* b = call.inputs.back().as<const T>();
  T* out = call.outputs[0].as<T>();
  const std::int64_t step = plan.size * plan.inner;
  for (std::int64_t o = 0; o < plan.outer; ++o, a += step, b += step, out += step) {
    if (plan.inner == 1)
      Op::row(a, b, out, plan.size);
    else
      run_columns<Op>(plan, a, b, out);
  }
}

template <template <class> class Op>
void run_any(const KernelCall& call) {
  if (call.inputs[0].dtype == DType::float32)
    run_op<Op<float>, float>(call);
  else
    run_op<Op<double>, double>(call);
}

void RunSoftmax(const KernelCall& call) { run_any<Softmax>(call); }
void RunLogSoftmax(const KernelCall& call) { run_any<LogSoftmax>(call); }
void RunSoftmaxBackward(const KernelCall& call) { run_any<SoftmaxBackward>(call); }
void RunLogSoftmaxBackward(const KernelCall& call) { run_any<LogSoftmaxBackward>(call); }

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {
namespace {

HWY_EXPORT(RunSoftmax);
HWY_EXPORT(RunLogSoftmax);
HWY_EXPORT(RunSoftmaxBackward);
HWY_EXPORT(RunLogSoftmaxBackward);

constexpr DTypeSet kTypes{DType::float32, DType::float64};

void softmax(const KernelCall& call) { HWY_DYNAMIC_DISPATCH(RunSoftmax)(call); }
void log_softmax(const KernelCall& call) { HWY_DYNAMIC_DISPATCH(RunLogSoftmax)(call); }
void softmax_backward(const KernelCall& call) { HWY_DYNAMIC_DISPATCH(RunSoftmaxBackward)(call); }
void log_softmax_backward(const KernelCall& call) {
  HWY_DYNAMIC_DISPATCH(RunLogSoftmaxBackward)(call);
}

}  // namespace

std::span<const KernelCandidate> softmax_kernels() {
  static constexpr KernelCandidate list[] = {{"simd", kTypes, softmax}};
  return list;
}

std::span<const KernelCandidate> log_softmax_kernels() {
  static constexpr KernelCandidate list[] = {{"simd", kTypes, log_softmax}};
  return list;
}

std::span<const KernelCandidate> softmax_backward_kernels() {
  static constexpr KernelCandidate list[] = {{"simd", kTypes, softmax_backward}};
  return list;
}

std::span<const KernelCandidate> log_softmax_backward_kernels() {
  static constexpr KernelCandidate list[] = {{"simd", kTypes, log_softmax_backward}};
  return list;
}

}  // namespace lockstep::kernels
#endif
