// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/tensor/tensor.h"

namespace lockstep::nn {

// A figure of merit over all samples since the last reset, in float64, added in the order in which
// they come: how samples were cut into batches makes no difference beyond rounding.
class Metric {
 public:
  using Value = std::pair<std::string, double>;

  explicit Metric(std::string name) : name_(std::move(name)) {}
  virtual ~Metric() = default;
  Metric(const Metric&) = delete;
  Metric& operator=(const Metric&) = delete;

  const std::string& name() const { return name_; }
  virtual void update(const Tensor& label, const Tensor& prediction) = 0;
  // Of a model with several: the first of each, unless the metric knows better (metric_of).
  virtual void update_all(const std::vector<Tensor>& labels, const std::vector<Tensor>& outputs);
  virtual void reset() = 0;
  // The value is NaN while there is none.
  virtual Value get() const = 0;
  // All values of a metric that has several.
  virtual std::vector<Value> get_all() const { return {get()}; }

 private:
  std::string name_;
};
using MetricPtr = std::unique_ptr<Metric>;

// A sum over a count.
class MeanMetric : public Metric {
 public:
  using Metric::Metric;
  void reset() override;
  Value get() const override;

 protected:
  void add(double value, std::int64_t count = 1);
  double mean() const;

 private:
  double sum_ = 0.0;
  std::int64_t count_ = 0;
};

// Predictions are scores of classes along `axis`, of which the largest counts, or class numbers of
// the label's shape. What is labelled `ignore_label` is left out.
class Accuracy : public MeanMetric {
 public:
  explicit Accuracy(int axis = -1, std::optional<std::int64_t> ignore_label = {})
      : MeanMetric("accuracy"), axis_(axis), ignore_label_(ignore_label) {}
  void update(const Tensor& label, const Tensor& prediction) override;

 private:
  int axis_;
  std::optional<std::int64_t> ignore_label_;
};

// The label is among the k largest scores; of equal scores the first ones.
class TopKAccuracy : public MeanMetric {
 public:
  explicit TopKAccuracy(std::int64_t k = 5, int axis = -1,
                        std::optional<std::int64_t> ignore_label = {});
  void update(const Tensor& label, const Tensor& prediction) override;

 private:
  std::int64_t k_;
  int axis_;
  std::optional<std::int64_t> ignore_label_;
};

// Of two classes, 0 and 1. Predictions are scores [N, 2], or probabilities of class 1 [N].
class BinaryMetric : public Metric {
 public:
  using Metric::Metric;
  void update(const Tensor& label, const Tensor& prediction) override;
  void reset() override { counts_ = {}; }

 protected:
  struct Counts {
    double true_positive = 0, false_positive = 0, true_negative = 0, false_negative = 0;
  };
  const Counts& counts() const { return counts_; }

 private:
  Counts counts_;
};

// 2 precision recall / (precision + recall); 0 where nothing is positive.
class F1 : public BinaryMetric {
 public:
  F1() : BinaryMetric("f1") {}
  Value get() const override;
};

// Matthews' correlation coefficient, -1 to 1.
class MCC : public BinaryMetric {
 public:
  MCC() : BinaryMetric("mcc") {}
  Value get() const override;
};

// The mean over elements of |p - t|.
class MAE : public MeanMetric {
 public:
  MAE() : MeanMetric("mae") {}
  void update(const Tensor& label, const Tensor& prediction) override;
};

// The mean over elements of (p - t)^2.
class MSE : public MeanMetric {
 public:
  explicit MSE(std::string name = "mse") : MeanMetric(std::move(name)) {}
  void update(const Tensor& label, const Tensor& prediction) override;
};

// The root of that.
class RMSE : public MSE {
 public:
  RMSE() : MSE("rmse") {}
  Value get() const override;
};

struct CrossEntropyMetricOptions {
  int axis = -1;
  bool from_scores = true;  // false: predictions are probabilities
  std::optional<std::int64_t> ignore_label = {};
};

// The mean of -log p(label).
class CrossEntropy : public MeanMetric {
 public:
  explicit CrossEntropy(const CrossEntropyMetricOptions& options = {},
                        std::string name = "cross_entropy")
      : MeanMetric(std::move(name)), options_(options) {}
  void update(const Tensor& label, const Tensor& prediction) override;

 private:
  CrossEntropyMetricOptions options_;
};

// exp of the cross-entropy.
class Perplexity : public CrossEntropy {
 public:
  explicit Perplexity(const CrossEntropyMetricOptions& options = {})
      : CrossEntropy(options, "perplexity") {}
  Value get() const override;
};

// Of all labels and predictions as two long vectors.
class PearsonCorrelation : public Metric {
 public:
  PearsonCorrelation() : Metric("pearson_correlation") {}
  void update(const Tensor& label, const Tensor& prediction) override;
  void reset() override { moments_ = {}; }
  Value get() const override;

 private:
  struct Moments {
    double count = 0, label = 0, prediction = 0, label_square = 0, prediction_square = 0, both = 0;
  };
  Moments moments_;
};

// The mean of what it is given as prediction.
class LossMetric : public MeanMetric {
 public:
  LossMetric() : MeanMetric("loss") {}
  void update(const Tensor& label, const Tensor& prediction) override;
};

// `function` gives a batch's value, which counts as often as the batch has samples.
class CustomMetric : public MeanMetric {
 public:
  using Function = std::function<double(const Tensor& label, const Tensor& prediction)>;
  CustomMetric(std::string name, Function function);
  void update(const Tensor& label, const Tensor& prediction) override;

 private:
  Function function_;
};

// Several at once; get() is the first one's value.
class CompositeMetric : public Metric {
 public:
  CompositeMetric() : Metric("composite") {}
  CompositeMetric& add(MetricPtr metric);
  void update(const Tensor& label, const Tensor& prediction) override;
  void update_all(const std::vector<Tensor>& labels, const std::vector<Tensor>& outputs) override;
  void reset() override;
  Value get() const override;
  std::vector<Value> get_all() const override;

 private:
  std::vector<MetricPtr> metrics_;
};

// A metric of one of several outputs and one of several labels, under a name of its own:
// metric_of(std::make_unique<MAE>(), {.output = 1, .label = 1, .name = "age_error"}).
struct MetricPlace {
  std::size_t output = 0, label = 0;
  std::string name = {};  // empty: the metric's
};
MetricPtr metric_of(MetricPtr metric, MetricPlace place);

struct MetricOptions {
  int axis = -1;
  std::int64_t k = 5;                             // of top_k_accuracy
  bool from_scores = true;                        // of cross_entropy and perplexity
  std::optional<std::int64_t> ignore_label = {};  // of these two and the accuracies
};

// "accuracy", "top_k_accuracy", "f1", ... Throws NotFound with the names there are.
MetricPtr metric(std::string_view name, const MetricOptions& options = {});
std::vector<std::string> metric_names();

}  // namespace lockstep::nn
