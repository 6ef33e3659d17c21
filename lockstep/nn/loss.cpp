// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/loss.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "lockstep/base/error.h"
#include "lockstep/ops/class_numbers.h"
#include "lockstep/ops/create.h"
#include "lockstep/ops/ctc.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/index_ops.h"
#include "lockstep/ops/loss.h"
#include "lockstep/ops/reduce.h"
#include "lockstep/ops/shape_ops.h"
#include "lockstep/ops/softmax.h"
#include "lockstep/ops/unary.h"

namespace lockstep::nn {
namespace {

// Keeps logarithms of probabilities and their slopes finite. float16 has no 1e-12, and nothing as
// large as its reciprocal.
double tiny(DType dtype) { return dtype == DType::float16 ? 0x1p-14 : 1e-12; }

Ints to_ints(const Shape& shape) { return Ints(shape.begin(), shape.end()); }

Ints axes_after_first(const Tensor& x) {
  Ints axes;
  for (int axis = 1; axis < x.rank(); ++axis) axes.push_back(axis);
  return axes;
}

// `axis` moved to the end.
Tensor axis_last(const Tensor& x, int axis) {
  if (axis == x.rank() - 1) return x;
  Ints order;
  for (int i = 0; i < x.rank(); ++i)
    if (i != axis) order.push_back(i);
  order.push_back(axis);
  return transpose(x, order);
}

Tensor widened(const Tensor& x) {
  const bool half = x.dtype() == DType::float16 || x.dtype() == DType::bfloat16;
  return half ? cast(x, DType::float32) : x;
}

Tensor cosine_of(const Tensor& a, const Tensor& b) {
  constexpr double kFloor = 1e-16;  // of squares: what is shorter than 1e-8 counts as that long
  const Tensor aa = sum(square(a), {-1}), bb = sum(square(b), {-1});
  const Tensor none = logical_or(equal(aa, 0.0), equal(bb, 0.0));
  const Tensor one = Tensor::scalar(1.0, a.dtype(), a.device());
  const Tensor zero = Tensor::scalar(0.0, a.dtype(), a.device());
  const auto scale = [&](const Tensor& squares) {
    return rsqrt(where(none, one, maximum(squares, kFloor)));
  };
  return where(none, zero, sum(a * b, {-1}) * scale(aa) * scale(bb));
}

// Whether they differ by axes of 1 alone: others are not to be taken for one another.
bool are_alike(const Shape& a, const Shape& b) {
  const auto counting = [](const Shape& shape) {
    Ints sizes = to_ints(shape);
    std::erase(sizes, 1);
    return sizes;
  };
  return counting(a) == counting(b);
}

Shape without(const Shape& shape, int axis) {
  Shape result = shape;
  result.erase(axis);
  return result;
}

// Axis 0 of both is the batch, so axes of 1 are added and dropped at the end: a broadcast as of
// other ops would make [N, N] of a weight [N] and losses [N, 1].
Tensor aligned_weight(const std::string& loss, const Tensor& weight, const Tensor& losses) {
  Shape shape = weight.shape();
  while (shape.rank() > losses.rank() && shape[shape.rank() - 1] == 1)
    shape.erase(shape.rank() - 1);
  while (shape.rank() < losses.rank()) shape.insert(shape.rank(), 1);
  bool fits = shape.rank() == losses.rank();
  for (int axis = 0; fits && axis < losses.rank(); ++axis)
    fits = shape[axis] == 1 || shape[axis] == losses.shape(axis);
  if (!fits)
    throw InvalidArgument(
        "{}: the sample weight has shape {}, the losses {}: expected one for each "
        "sample or for each loss",
        loss, weight.shape().str(), losses.shape().str());
  return shape == weight.shape() ? weight : reshape(weight, to_ints(shape));
}

// Of two classes: the second where a number is above its threshold.
Classes above(const Tensor& prediction, double threshold, const Tensor& label,
              double label_threshold) {
  return {greater(prediction, threshold), greater(label, label_threshold)};
}

}  // namespace

Tensor LossBase::like(const Tensor& label, const Tensor& prediction) const {
  if (!label.defined() || !prediction.defined())
    throw InvalidArgument("{}: the {} is undefined", name_,
                          prediction.defined() ? "label" : "prediction");
  if (!are_alike(label.shape(), prediction.shape()))
    throw InvalidArgument("{}: label has shape {}, expected {} as the prediction", name_,
                          label.shape().str(), prediction.shape().str());
  const Tensor shaped =
      label.shape() == prediction.shape() ? label : reshape(label, to_ints(prediction.shape()));
  return label.dtype() == prediction.dtype() ? shaped : cast(shaped, prediction.dtype());
}

Tensor LossBase::per_sample(const Tensor& elements, const Tensor& sample_weight) const {
  Tensor loss = elements;
  if (sample_weight.defined())
    loss = loss * cast(aligned_weight(name_, sample_weight, loss), loss.dtype());
  if (weight_ != 1.0) loss = loss * weight_;
  return loss.rank() > 1 ? mean(loss, axes_after_first(loss)) : loss;
}

Tensor Loss::operator()(const Tensor& prediction, const Tensor& label,
                        const Tensor& sample_weight) const {
  return per_sample(elements(prediction, label), sample_weight);
}

Classes Loss::classes(const Tensor&, const Tensor&) const { return {}; }

Tensor L1Loss::elements(const Tensor& prediction, const Tensor& label) const {
  return abs(prediction - like(label, prediction));
}

Tensor L2Loss::elements(const Tensor& prediction, const Tensor& label) const {
  return square(prediction - like(label, prediction)) * 0.5;
}

HuberLoss::HuberLoss(double rho, double weight) : Loss("HuberLoss", weight), rho_(rho) {
  if (!(rho > 0.0)) throw InvalidArgument("HuberLoss: rho is {}, expected more than 0", rho);
}

Tensor HuberLoss::elements(const Tensor& prediction, const Tensor& label) const {
  const Tensor distance = abs(prediction - like(label, prediction));
  return where(greater(distance, rho_), distance - 0.5 * rho_, square(distance) * (0.5 / rho_));
}

SoftmaxCrossEntropyLoss::SoftmaxCrossEntropyLoss(const SoftmaxCrossEntropyOptions& options)
    : Loss("SoftmaxCrossEntropyLoss", options.weight), options_(options) {
  const double s = options.smoothing;
  if (!(s >= 0.0 && s <= 1.0))
    throw InvalidArgument("SoftmaxCrossEntropyLoss: smoothing is {}, expected 0 to 1", s);
  for (const double w : options.class_weights)
    if (!(w >= 0.0) || !std::isfinite(w))
      throw InvalidArgument(
          "SoftmaxCrossEntropyLoss: a class weight is {}, expected 0 or more, and finite", w);
}

// Undefined where the label holds probabilities. Class numbers may come as floats.
Tensor SoftmaxCrossEntropyLoss::class_numbers(const Tensor& prediction, const Tensor& label) const {
  const int axis = options_.axis < 0 ? options_.axis + prediction.rank() : options_.axis;
  if (axis < 0 || axis >= prediction.rank())
    throw InvalidArgument("{}: axis is {}, the prediction has shape {}", name(), options_.axis,
                          prediction.shape().str());
  const bool floating = is_floating(label.dtype());
  if (floating && label.shape() == prediction.shape()) return {};
  const Shape rows = without(prediction.shape(), axis);
  if (!are_alike(label.shape(), rows))
    throw InvalidArgument("{}: label has shape {}, expected {} for a prediction of shape {}",
                          name(), label.shape().str(), rows.str(), prediction.shape().str());
  const Tensor shaped = label.shape() == rows ? label : reshape(label, to_ints(rows));
  return lockstep::detail::class_numbers(shaped);
}

// Undefined where every label counts.
Tensor SoftmaxCrossEntropyLoss::counted(const Tensor& numbers) const {
  if (!options_.ignore_label) return {};
  return not_equal(cast(numbers, DType::int64), static_cast<double>(*options_.ignore_label));
}

// Undefined where there are none.
Tensor SoftmaxCrossEntropyLoss::class_weights(const Tensor& scores) const {
  const auto given = static_cast<std::int64_t>(options_.class_weights.size());
  if (given == 0) return {};
  if (given != scores.shape(-1))
    throw InvalidArgument("{}: there are {} class weights, the prediction has {} classes", name(),
                          given, scores.shape(-1));
  return cast(Tensor::from(options_.class_weights, {given}, scores.device()), scores.dtype());
}

Tensor SoftmaxCrossEntropyLoss::unweighted(const Tensor& scores, const Tensor& target,
                                           double smoothing) const {
  if (!options_.from_logits) return softmax_cross_entropy(scores, target, smoothing);
  const Tensor likely = is_floating(target.dtype()) ? sum(scores * target, {-1})
                                                    : pick(scores, cast(target, DType::int64));
  if (smoothing == 0.0) return -likely;
  return -(likely * (1.0 - smoothing) + mean(scores, {-1}) * smoothing);
}

Tensor SoftmaxCrossEntropyLoss::of_probabilities(const Tensor& scores, const Tensor& target) const {
  const Tensor weights = class_weights(scores);
  const double s = options_.smoothing;
  if (!weights.defined()) return unweighted(scores, target, s);
  const auto classes = static_cast<double>(scores.shape(-1));
  const Tensor smooth = s == 0.0 ? target : target * (1.0 - s) + s / classes;
  return unweighted(scores, smooth * weights, 0.0);
}

// Losses are scaled so that their mean over all labels is that over the labels that count.
Tensor SoftmaxCrossEntropyLoss::of_class_numbers(const Tensor& scores,
                                                 const Tensor& numbers) const {
  const Tensor weights = class_weights(scores), kept = counted(numbers);
  if (!weights.defined() && !kept.defined()) return unweighted(scores, numbers, options_.smoothing);
  const Device device = scores.device();
  const Tensor none = Tensor::scalar(0.0, scores.dtype(), device);
  const Tensor labels =
      kept.defined() ? where(kept, cast(numbers, DType::int64), zeros({}, DType::int64, device))
                     : cast(numbers, DType::int64);
  Tensor loss, share;
  if (weights.defined()) {
    share = take(weights, labels);
    loss = options_.smoothing == 0.0
               ? unweighted(scores, labels, 0.0) * share
               : of_probabilities(scores, one_hot(labels, scores.shape(-1), scores.dtype()));
  } else {
    share = ones(labels.shape(), scores.dtype(), device);
    loss = unweighted(scores, labels, options_.smoothing);
  }
  if (kept.defined()) {
    share = where(kept, share, none);
    loss = where(kept, loss, none);
  }
  const Tensor total = sum(widened(share));
  const Tensor scale = static_cast<double>(labels.numel()) /
                       where(equal(total, 0.0), Tensor::scalar(1.0, total.dtype(), device), total);
  return loss * cast(scale, loss.dtype());
}

Tensor SoftmaxCrossEntropyLoss::elements(const Tensor& prediction, const Tensor& label) const {
  if (!label.defined() || !prediction.defined())
    throw InvalidArgument("{}: the {} is undefined", name(),
                          prediction.defined() ? "label" : "prediction");
  const Tensor numbers = class_numbers(prediction, label);
  const int axis = options_.axis < 0 ? options_.axis + prediction.rank() : options_.axis;
  const Tensor scores = axis_last(prediction, axis);
  if (numbers.defined()) return of_class_numbers(scores, numbers);
  return of_probabilities(scores, axis_last(like(label, prediction), axis));
}

Classes SoftmaxCrossEntropyLoss::classes(const Tensor& prediction, const Tensor& label) const {
  const Tensor numbers = class_numbers(prediction, label);
  const Tensor predicted = argmax(prediction, options_.axis);
  if (!numbers.defined()) return {predicted, argmax(label, options_.axis)};
  return {predicted, numbers, counted(numbers)};
}

Classes SigmoidBinaryCrossEntropyLoss::classes(const Tensor& prediction,
                                               const Tensor& label) const {
  return above(prediction, from_sigmoid_ ? 0.5 : 0.0, like(label, prediction), 0.5);
}

Classes HingeLoss::classes(const Tensor& prediction, const Tensor& label) const {
  return above(prediction, 0.0, like(label, prediction), 0.0);
}

Classes SquaredHingeLoss::classes(const Tensor& prediction, const Tensor& label) const {
  return above(prediction, 0.0, like(label, prediction), 0.0);
}

Classes LogisticLoss::classes(const Tensor& prediction, const Tensor& label) const {
  const double between = format_ == LabelFormat::signs ? 0.0 : 0.5;
  return above(prediction, 0.0, like(label, prediction), between);
}

Tensor SigmoidBinaryCrossEntropyLoss::elements(const Tensor& prediction,
                                               const Tensor& label) const {
  const Tensor t = like(label, prediction);
  if (!from_sigmoid_) return sigmoid_cross_entropy(prediction, t);
  const double eps = tiny(prediction.dtype());
  return -(log(prediction + eps) * t + log(1.0 - prediction + eps) * (1.0 - t));
}

Tensor KLDivLoss::elements(const Tensor& prediction, const Tensor& label) const {
  const Tensor t = like(label, prediction);
  const Tensor p = from_logits_ ? prediction : log_softmax(prediction, axis_);
  // What has no probability adds nothing, however it is written.
  const auto replaced = [&](double value, double by) {
    return where(equal(t, value), Tensor::scalar(by, t.dtype(), t.device()), t);
  };
  if (log_target_) return exp(t) * (replaced(-std::numeric_limits<double>::infinity(), 0.0) - p);
  return t * (log(replaced(0.0, 1.0)) - p);
}

Tensor HingeLoss::elements(const Tensor& prediction, const Tensor& label) const {
  return relu(margin_ - prediction * like(label, prediction));
}

Tensor SquaredHingeLoss::elements(const Tensor& prediction, const Tensor& label) const {
  return square(relu(margin_ - prediction * like(label, prediction)));
}

Tensor LogisticLoss::elements(const Tensor& prediction, const Tensor& label) const {
  const Tensor t = like(label, prediction);
  return sigmoid_cross_entropy(prediction, format_ == LabelFormat::signs ? (t + 1.0) * 0.5 : t);
}

Tensor PoissonNLLLoss::elements(const Tensor& prediction, const Tensor& label) const {
  const Tensor t = like(label, prediction);
  const double eps =
      t.dtype() == DType::float16 ? std::max(options_.epsilon, tiny(t.dtype())) : options_.epsilon;
  const Tensor loss = options_.from_logits ? exp(prediction) - t * prediction
                                           : prediction - t * log(prediction + eps);
  if (!options_.compute_full) return loss;
  // The approximation holds from 2 on; log(0!) and log(1!) are 0. Smaller ones stand in as 2, so
  // that their logarithms are finite.
  const Tensor n = maximum(t, 2.0);
  const Tensor stirling = n * log(n) - n + log(n * (2.0 * std::numbers::pi)) * 0.5;
  return loss + where(greater(t, 1.0), stirling, t * 0.0);
}

Tensor CTCLoss::elements(const Tensor& prediction, const Tensor& label) const {
  return losses(prediction, label, {}, {});
}

Tensor CTCLoss::with_lengths(const Tensor& prediction, const Tensor& label,
                             const Tensor& prediction_lengths, const Tensor& label_lengths) const {
  return per_sample(losses(prediction, label, prediction_lengths, label_lengths));
}

Tensor CTCLoss::losses(const Tensor& prediction, const Tensor& label,
                       const Tensor& prediction_lengths, const Tensor& label_lengths) const {
  if (!prediction.defined() || prediction.rank() != 3)
    throw InvalidArgument("CTCLoss: prediction has shape {}, expected {}",
                          prediction.defined() ? prediction.shape().str() : "undefined",
                          options_.layout == SequenceLayout::NTC ? "[N, T, C]" : "[T, N, C]");
  const bool batch_first = options_.layout == SequenceLayout::NTC;
  const Tensor logits = batch_first ? transpose(prediction, {1, 0, 2}) : prediction;
  const std::int64_t blank = options_.blank == BlankLabel::first ? 0 : prediction.shape(2) - 1;
  return ctc_loss(logits, label, blank, prediction_lengths, label_lengths);
}

Tensor TripletLoss::operator()(const Tensor& anchor, const Tensor& positive,
                               const Tensor& negative) const {
  const Tensor difference =
      square(like(positive, anchor) - anchor) - square(like(negative, anchor) - anchor);
  const Ints axes = axes_after_first(anchor);
  const Tensor summed = axes.empty() ? difference : sum(difference, axes);
  return per_sample(relu(summed + margin_));
}

// Squares leave float16's range soon, so half types are computed in float32. A vector of zeros has
// no direction: its cosine is 0, and so is its gradient.
Tensor CosineEmbeddingLoss::operator()(const Tensor& a, const Tensor& b,
                                       const Tensor& label) const {
  const Tensor other = like(b, a);
  const Tensor cosine = cast(cosine_of(widened(a), widened(other)), a.dtype());
  const Tensor t = like(label, cosine);
  return per_sample(where(equal(t, 1.0), 1.0 - cosine, relu(cosine - margin_)));
}

}  // namespace lockstep::nn
