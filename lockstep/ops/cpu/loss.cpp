// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/loss.h"

#include "lockstep/base/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lockstep/ops/cpu/loss.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "lockstep/ops/cpu/rows-inl.h"
#include "lockstep/ops/loss_attrs.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels {
namespace HWY_NAMESPACE {

template <class T>
struct Distance {  // from the largest logit, weighted by a probability where there is one
  T most;
  const T* weights;
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, hn::Vec<D> v, std::int64_t i, std::int64_t count) const {
    const auto distance = hn::Sub(v, hn::Set(d, most));
    if (weights == nullptr) return distance;
    const auto w = load_at(d, weights, i, count);
    // 0 * -inf is 0 here: a class that cannot be and is not.
    return hn::IfThenZeroElse(hn::Eq(w, hn::Zero(d)), hn::Mul(w, distance));
  }
};

template <class T>
struct Plain {
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D, hn::Vec<D> v, std::int64_t, std::int64_t) const {
    return v;
  }
};

// The loss is sum(target * (log(sum(exp(x))) - x)), taken about the largest logit, where target is
// (1 - s) * labels + s / C.
template <class T>
struct RowLoss {
  const TensorView& labels;
  std::int64_t classes;
  T smoothing;
  bool dense;

  // `log_sum` is relative to the largest logit: added to a large one, it would lose its digits.
  void forward(const T* x, std::int64_t row, T* loss, T* log_sum_out) const {
    const T most = row_extreme<true>(x, classes);
    const T log_sum = std::log(sum_of_row(x, classes, ExpMinus<T>{most}));
    *log_sum_out = log_sum;
    T total = (T{1} - smoothing) * labelled_loss(x, row, most, log_sum);
    if (smoothing != T{0}) {
      const T mean = sum_of_row(x, classes, Distance<T>{most, nullptr}) / static_cast<T>(classes);
      total += smoothing * (log_sum - mean);
    }
    *loss = total;
  }

  HWY_INLINE T labelled_loss(const T* x, std::int64_t row, T most, T log_sum) const {
    if (!dense) return log_sum - (x[label_of(labels, row, classes)] - most);
    const T* target = labels.as<const T>() + row * classes;
    const T mass = sum_of_row(target, classes, Plain<T>{});
    return mass * log_sum - sum_of_row(x, classes, Distance<T>{most, target});
  }

  struct Pull {  // grad * (mass * softmax - target), without the label's own part where it is one
    T grad, mass, most, log_sum, keep, spread;
    const T* target;
    template <class D>
    HWY_INLINE hn::Vec<D> operator()(D d, hn::Vec<D> v, std::int64_t i, std::int64_t count) const {
      const auto distance = hn::Sub(v, hn::Set(d, most));
      const auto p = exp_or_nan(d, hn::Sub(distance, hn::Set(d, log_sum)));
      auto pull = hn::MulSub(p, hn::Set(d, mass), hn::Set(d, spread));
      if (target != nullptr)
        pull = hn::NegMulAdd(load_at(d, target, i, count), hn::Set(d, keep), pull);
      return hn::Mul(pull, hn::Set(d, grad));
    }
  };

  void backward(T grad, const T* x, T log_sum, std::int64_t row, T* out) const {
    const T most = row_extreme<true>(x, classes);
    const T keep = T{1} - smoothing;
    const T spread = smoothing / static_cast<T>(classes);
    if (dense) {
      const T* target = labels.as<const T>() + row * classes;
      const T mass = keep * sum_of_row(target, classes, Plain<T>{}) + smoothing;
      map_row(x, out, classes, Pull{grad, mass, most, log_sum, keep, spread, target});
      return;
    }
    const std::int64_t label = label_of(labels, row, classes);
    map_row(x, out, classes, Pull{grad, T{1}, most, log_sum, keep, spread, nullptr});
    out[label] -= keep * grad;
  }
};

template <class T>
RowLoss<T> row_loss(const KernelCall& call, const TensorView& logits, const TensorView& labels) {
  const auto smoothing = static_cast<T>(call.attrs.as<CrossEntropyAttrs>().smoothing);
  return {labels, logits.shape.back(), smoothing, is_floating(labels.dtype)};
}

template <class T>
void cross_entropy(const KernelCall& call) {
  const RowLoss<T> rows = row_loss<T>(call, call.inputs[0], call.inputs[1]);
  const T* x = call.inputs[0].as<const T>();
  const std::int64_t count = call.outputs[0].numel();
  for (std::int64_t row = 0; row < count; ++row)
    rows.forward(x + row * rows.classes, row, call.outputs[0].as<T>() + row,
                 call.outputs[1].as<T>() + row);
}

template <class T>
void cross_entropy_backward(const KernelCall& call) {
  const RowLoss<T> rows = row_loss<T>(call, call.inputs[1], call.inputs[2]);
  const T* grad = call.inputs[0].as<const T>();
  const T* x = call.inputs[1].as<const T>();
  const T* log_sum = call.inputs[3].as<const T>();
  T* out = call.outputs[0].as<T>();
  const std::int64_t count = call.inputs[0].numel();
  for (std::int64_t row = 0; row < count; ++row)
    rows.backward(grad[row], x + row * rows.classes, log_sum[row], row, out + row * rows.classes);
}

// |x| times the part of the label that is on the other side, + log1p(exp(-|x|)): no exponential of
// a positive number, and an infinite logit that is right costs nothing.
template <class T>
struct SigmoidLoss {
  const T* labels;
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, hn::Vec<D> x, std::int64_t i, std::int64_t count) const {
    const auto t = load_at(d, labels, i, count);
    const auto zero = hn::Zero(d);
    const auto size = hn::Abs(x);
    const auto tail = hn::Log1p(d, hn::Exp(d, hn::Neg(size)));
    const auto wrong = hn::IfThenElse(hn::Gt(x, zero), hn::Sub(hn::Set(d, T{1}), t), t);
    const auto cost = hn::IfThenZeroElse(hn::Eq(wrong, zero), hn::Mul(size, wrong));
    return hn::IfThenElse(hn::IsNaN(x), x, hn::Add(cost, tail));
  }
};

template <class T>
void sigmoid_cross_entropy(const KernelCall& call) {
  map_row(call.inputs[0].as<const T>(), call.outputs[0].as<T>(), call.outputs[0].numel(),
          SigmoidLoss<T>{call.inputs[1].as<const T>()});
}

void RunCrossEntropy(const KernelCall& call) {
  call.inputs[0].dtype == DType::float32 ? cross_entropy<float>(call) : cross_entropy<double>(call);
}
void RunCrossEntropyBackward(const KernelCall& call) {
  call.inputs[1].dtype == DType::float32 ? cross_entropy_backward<float>(call)
                                         : cross_entropy_backward<double>(call);
}
void RunSigmoidCrossEntropy(const KernelCall& call) {
  call.inputs[0].dtype == DType::float32 ? sigmoid_cross_entropy<float>(call)
                                         : sigmoid_cross_entropy<double>(call);
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {
namespace {

HWY_EXPORT(RunCrossEntropy);
HWY_EXPORT(RunCrossEntropyBackward);
HWY_EXPORT(RunSigmoidCrossEntropy);

constexpr DTypeSet kTypes{DType::float32, DType::float64};

void forward(const KernelCall& call) { HWY_DYNAMIC_DISPATCH(RunCrossEntropy)(call); }
void backward(const KernelCall& call) { HWY_DYNAMIC_DISPATCH(RunCrossEntropyBackward)(call); }
void sigmoid_loss(const KernelCall& call) { HWY_DYNAMIC_DISPATCH(RunSigmoidCrossEntropy)(call); }

}  // namespace

std::int64_t label_of(const TensorView& labels, std::int64_t row, std::int64_t classes) {
  std::int64_t label = 0;
  switch (labels.dtype) {
    case DType::uint8: label = labels.as<const std::uint8_t>()[row]; break;
    case DType::int8: label = labels.as<const std::int8_t>()[row]; break;
    case DType::int16: label = labels.as<const std::int16_t>()[row]; break;
    case DType::int32: label = labels.as<const std::int32_t>()[row]; break;
    default: label = labels.as<const std::int64_t>()[row]; break;
  }
  if (label < 0 || label >= classes)
    throw InvalidArgument("softmax_cross_entropy: label {} of row {} is outside 0..{}", label, row,
                          classes - 1);
  return label;
}

std::span<const KernelCandidate> softmax_cross_entropy_kernels() {
  static constexpr KernelCandidate list[] = {{"simd", kTypes, forward}};
  return list;
}

std::span<const KernelCandidate> softmax_cross_entropy_backward_kernels() {
  static constexpr KernelCandidate list[] = {{"simd", kTypes, backward}};
  return list;
}

std::span<const KernelCandidate> sigmoid_cross_entropy_kernels() {
  static constexpr KernelCandidate list[] = {{"simd", kTypes, sigmoid_loss}};
  return list;
}

}  // namespace lockstep::kernels
#endif
