// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/tensor/tensor.h"

namespace lockstep::nn {

// What losses have in common: a name for messages, and a weight on the result.
class LossBase {
 public:
  virtual ~LossBase() = default;
  const std::string& name() const { return name_; }

 protected:
  LossBase(std::string name, double weight) : name_(std::move(name)), weight_(weight) {}
  // The label in the prediction's dtype and shape, or InvalidArgument.
  Tensor like(const Tensor& label, const Tensor& prediction) const;
  // Weighted, and the mean over all axes but the first.
  Tensor per_sample(const Tensor& elements, const Tensor& sample_weight = {}) const;

 private:
  std::string name_;
  double weight_;
};

// What a model decided for each of its samples, or their parts, and what is right. Undefined where
// a loss knows no classes.
struct Classes {
  Tensor predicted = {}, expected = {};
  Tensor counted = {};  // bool: which of them an accuracy counts; undefined: all
};

// A function of what a model says and what it should have said: one value for each sample, the mean
// over all other axes. A value itself: copy it, or keep it as a std::function of two tensors.
class Loss : public LossBase {
 public:
  // `sample_weight`, where given, has one value for each sample, or for each single element; axes
  // of 1 broadcast. Throws InvalidArgument for another shape.
  Tensor operator()(const Tensor& prediction, const Tensor& label,
                    const Tensor& sample_weight = {}) const;
  // Of losses that tell classes apart: what accuracy compares.
  virtual Classes classes(const Tensor& prediction, const Tensor& label) const;

 protected:
  using LossBase::LossBase;
  // Before weights and means; axis 0 is the batch.
  virtual Tensor elements(const Tensor& prediction, const Tensor& label) const = 0;
};

// |p - t|
class L1Loss : public Loss {
 public:
  explicit L1Loss(double weight = 1.0) : Loss("L1Loss", weight) {}

 protected:
  Tensor elements(const Tensor& prediction, const Tensor& label) const override;
};

// (p - t)^2 / 2
class L2Loss : public Loss {
 public:
  explicit L2Loss(double weight = 1.0) : Loss("L2Loss", weight) {}

 protected:
  Tensor elements(const Tensor& prediction, const Tensor& label) const override;
};

// Quadratic up to `rho`, then linear.
class HuberLoss : public Loss {
 public:
  explicit HuberLoss(double rho = 1.0, double weight = 1.0);

 protected:
  Tensor elements(const Tensor& prediction, const Tensor& label) const override;

 private:
  double rho_;
};

struct SoftmaxCrossEntropyOptions {
  int axis = -1;             // of the classes
  bool from_logits = false;  // predictions are log-probabilities already
  double smoothing = 0.0;    // 1 - s for the label, s / C for each class
  double weight = 1.0;
  std::vector<double> class_weights = {};         // one for each class; none: all 1
  std::optional<std::int64_t> ignore_label = {};  // class numbers of this value do not count
};

// Labels are class numbers (the prediction's shape without `axis`, or with 1 there), or
// probabilities of the prediction's shape (floating).
//
// With class weights or an ignored label, the mean over what operator() returns is that over what
// counts, as PyTorch's: sum(weight of the label * loss) / sum(weight of the label). The sums are
// over the tensors at hand, which in training are a shard's. Where nothing counts the loss is 0. Of
// probabilities the weights multiply each class's part, and the mean is over all samples.
class SoftmaxCrossEntropyLoss : public Loss {
 public:
  explicit SoftmaxCrossEntropyLoss(const SoftmaxCrossEntropyOptions& options = {});
  // The largest score along the axis; of a label of probabilities the largest one.
  Classes classes(const Tensor& prediction, const Tensor& label) const override;

 protected:
  Tensor elements(const Tensor& prediction, const Tensor& label) const override;

 private:
  Tensor class_numbers(const Tensor& prediction, const Tensor& label) const;
  Tensor counted(const Tensor& numbers) const;
  Tensor class_weights(const Tensor& scores) const;
  Tensor unweighted(const Tensor& scores, const Tensor& target, double smoothing) const;
  Tensor of_probabilities(const Tensor& scores, const Tensor& target) const;
  Tensor of_class_numbers(const Tensor& scores, const Tensor& numbers) const;
  SoftmaxCrossEntropyOptions options_;
};

// Labels in 0..1; predictions are logits, or probabilities where `from_sigmoid`.
class SigmoidBinaryCrossEntropyLoss : public Loss {
 public:
  explicit SigmoidBinaryCrossEntropyLoss(bool from_sigmoid = false, double weight = 1.0)
      : Loss("SigmoidBinaryCrossEntropyLoss", weight), from_sigmoid_(from_sigmoid) {}
  // Class 1 where the probability is above a half; the same holds for labels.
  Classes classes(const Tensor& prediction, const Tensor& label) const override;

 protected:
  Tensor elements(const Tensor& prediction, const Tensor& label) const override;

 private:
  bool from_sigmoid_;
};

// t (log t - p): predictions are log-probabilities, or where `from_logits` is false scores whose
// log_softmax along `axis` is taken. With `log_target` labels are logarithms, too.
class KLDivLoss : public Loss {
 public:
  explicit KLDivLoss(bool from_logits = true, int axis = -1, double weight = 1.0,
                     bool log_target = false)
      : Loss("KLDivLoss", weight),
        from_logits_(from_logits),
        axis_(axis),
        log_target_(log_target) {}

 protected:
  Tensor elements(const Tensor& prediction, const Tensor& label) const override;

 private:
  bool from_logits_;
  int axis_;
  bool log_target_;
};

// max(0, margin - p t), labels -1 or 1.
class HingeLoss : public Loss {
 public:
  explicit HingeLoss(double margin = 1.0, double weight = 1.0)
      : Loss("HingeLoss", weight), margin_(margin) {}
  // Class 1 where the sign is positive.
  Classes classes(const Tensor& prediction, const Tensor& label) const override;

 protected:
  Tensor elements(const Tensor& prediction, const Tensor& label) const override;

 private:
  double margin_;
};

// The square of that.
class SquaredHingeLoss : public Loss {
 public:
  explicit SquaredHingeLoss(double margin = 1.0, double weight = 1.0)
      : Loss("SquaredHingeLoss", weight), margin_(margin) {}
  Classes classes(const Tensor& prediction, const Tensor& label) const override;

 protected:
  Tensor elements(const Tensor& prediction, const Tensor& label) const override;

 private:
  double margin_;
};

enum class LabelFormat { signs, binary };  // -1 and 1, or 0 and 1

// log(1 + exp(-p t))
class LogisticLoss : public Loss {
 public:
  explicit LogisticLoss(LabelFormat format = LabelFormat::signs, double weight = 1.0)
      : Loss("LogisticLoss", weight), format_(format) {}
  Classes classes(const Tensor& prediction, const Tensor& label) const override;

 protected:
  Tensor elements(const Tensor& prediction, const Tensor& label) const override;

 private:
  LabelFormat format_;
};

struct PoissonNLLOptions {
  bool from_logits = true;    // predictions are logarithms of rates
  bool compute_full = false;  // with Stirling's approximation of log(t!)
  double epsilon = 1e-8;
  double weight = 1.0;
};

// exp(p) - t p: the negative logarithm of Poisson's probability of the label, without what depends
// on the label alone.
class PoissonNLLLoss : public Loss {
 public:
  explicit PoissonNLLLoss(const PoissonNLLOptions& options = {})
      : Loss("PoissonNLLLoss", options.weight), options_(options) {}

 protected:
  Tensor elements(const Tensor& prediction, const Tensor& label) const override;

 private:
  PoissonNLLOptions options_;
};

enum class SequenceLayout { NTC, TNC };
enum class BlankLabel { first, last };

struct CTCOptions {
  SequenceLayout layout = SequenceLayout::NTC;
  BlankLabel blank = BlankLabel::last;
  double weight = 1.0;
};

// -log p(label) over all alignments (Graves et al., 2006) of scores before softmax. Labels [N, L]
// are integers; a negative one ends its row, as `label_lengths` [N] does. Without
// `prediction_lengths` [N] every sequence has all T steps. A label that no alignment gives has loss
// infinity and no gradient.
class CTCLoss : public Loss {
 public:
  explicit CTCLoss(const CTCOptions& options = {})
      : Loss("CTCLoss", options.weight), options_(options) {}
  Tensor with_lengths(const Tensor& prediction, const Tensor& label,
                      const Tensor& prediction_lengths, const Tensor& label_lengths = {}) const;

 protected:
  Tensor elements(const Tensor& prediction, const Tensor& label) const override;

 private:
  Tensor losses(const Tensor& prediction, const Tensor& label, const Tensor& prediction_lengths,
                const Tensor& label_lengths) const;
  CTCOptions options_;
};

// max(0, margin + |anchor - positive|^2 - |anchor - negative|^2), summed over a sample.
class TripletLoss : public LossBase {
 public:
  explicit TripletLoss(double margin = 1.0, double weight = 1.0)
      : LossBase("TripletLoss", weight), margin_(margin) {}
  Tensor operator()(const Tensor& anchor, const Tensor& positive, const Tensor& negative) const;

 private:
  double margin_;
};

// 1 - cos(a, b) where the label is 1, max(0, cos(a, b) - margin) where it is -1. Vectors lie along
// the last axis.
class CosineEmbeddingLoss : public LossBase {
 public:
  explicit CosineEmbeddingLoss(double margin = 0.0, double weight = 1.0)
      : LossBase("CosineEmbeddingLoss", weight), margin_(margin) {}
  Tensor operator()(const Tensor& a, const Tensor& b, const Tensor& label) const;

 private:
  double margin_;
};

}  // namespace lockstep::nn
