// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/metric.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lockstep/base/error.h"
#include "lockstep/nn/metric_auc.h"
#include "lockstep/ops/shape_ops.h"

namespace lockstep::nn {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

void check_defined(const std::string& metric, const Tensor& label, const Tensor& prediction) {
  if (!label.defined() || !prediction.defined())
    throw InvalidArgument("{}: the {} is undefined", metric,
                          prediction.defined() ? "label" : "prediction");
}

void check_count(const std::string& metric, const Tensor& label, const Tensor& prediction,
                 std::int64_t expected) {
  if (label.numel() != expected)
    throw InvalidArgument("{}: label has shape {}, which does not fit predictions of shape {}",
                          metric, label.shape().str(), prediction.shape().str());
}

// Rows of class scores and the label of each.
struct Scores {
  std::vector<double> values;
  std::vector<std::int64_t> labels;
  std::size_t classes = 0;

  const double* row(std::size_t i) const { return values.data() + i * classes; }
  std::int64_t best(std::size_t i) const {
    return std::max_element(row(i), row(i) + classes) - row(i);
  }
};

// Class numbers may come as floats.
std::vector<std::int64_t> class_numbers_of(const std::string& metric, const Tensor& label) {
  if (is_floating(label.dtype())) {
    const std::vector<double> values = label.to_vector<double>();
    for (std::size_t row = 0; row < values.size(); ++row)
      if (!std::isfinite(values[row]) || values[row] != std::trunc(values[row]))
        throw InvalidArgument("{}: label {} of row {} is no class number", metric,
                              std::isnan(values[row]) ? std::abs(values[row]) : values[row], row);
  }
  return label.to_vector<std::int64_t>();
}

Scores scores_of(const std::string& metric, const Tensor& label, const Tensor& prediction,
                 int axis) {
  const int rank = prediction.rank(), at = axis < 0 ? axis + rank : axis;
  if (at < 0 || at >= rank || prediction.shape(at) == 0)
    throw InvalidArgument("{}: predictions have shape {}, expected classes along axis {}", metric,
                          prediction.shape().str(), axis);
  check_count(metric, label, prediction, prediction.numel() / prediction.shape(at));
  Ints order;
  for (int i = 0; i < rank; ++i)
    if (i != at) order.push_back(i);
  order.push_back(at);
  const Tensor last = at == rank - 1 ? prediction : transpose(prediction, order);
  return {last.to_vector<double>(), class_numbers_of(metric, label),
          static_cast<std::size_t>(prediction.shape(at))};
}

std::size_t label_in_range(const std::string& metric, const Scores& scores, std::size_t row) {
  const std::int64_t label = scores.labels[row];
  if (label < 0 || label >= static_cast<std::int64_t>(scores.classes))
    throw InvalidArgument("{}: label {} of row {} is outside 0..{}", metric, label, row,
                          scores.classes - 1);
  return static_cast<std::size_t>(label);
}

// Calls f(label, prediction) for each pair of elements.
template <class F>
void for_pairs(const std::string& metric, const Tensor& label, const Tensor& prediction, F&& f) {
  check_defined(metric, label, prediction);
  check_count(metric, label, prediction, prediction.numel());
  const std::vector<double> t = label.to_vector<double>(), p = prediction.to_vector<double>();
  for (std::size_t i = 0; i < t.size(); ++i) f(t[i], p[i]);
}

double log_sum_exp(const double* x, std::size_t count) {
  const double most = *std::max_element(x, x + count);
  double sum = 0.0;
  for (std::size_t i = 0; i < count; ++i) sum += std::exp(x[i] - most);
  return most + std::log(sum);
}

}  // namespace

void MeanMetric::add(double value, std::int64_t count) {
  sum_ += value;
  count_ += count;
}

void MeanMetric::reset() {
  sum_ = 0.0;
  count_ = 0;
}

double MeanMetric::mean() const { return count_ == 0 ? kNone : sum_ / static_cast<double>(count_); }

Metric::Value MeanMetric::get() const { return {name(), mean()}; }

void Accuracy::update(const Tensor& label, const Tensor& prediction) {
  check_defined(name(), label, prediction);
  if (label.shape() == prediction.shape()) {
    for_pairs(name(), label, prediction, [&](double t, double p) {
      if (!ignore_label_ || t != static_cast<double>(*ignore_label_)) add(t == p ? 1.0 : 0.0);
    });
    return;
  }
  const Scores scores = scores_of(name(), label, prediction, axis_);
  for (std::size_t i = 0; i < scores.labels.size(); ++i)
    if (ignore_label_ != scores.labels[i]) add(scores.best(i) == scores.labels[i] ? 1.0 : 0.0);
}

TopKAccuracy::TopKAccuracy(std::int64_t k, int axis, std::optional<std::int64_t> ignore_label)
    : MeanMetric(fmt::format("top_{}_accuracy", k)),
      k_(k),
      axis_(axis),
      ignore_label_(ignore_label) {
  if (k < 1) throw InvalidArgument("top_k_accuracy: k is {}, expected 1 or more", k);
}

void TopKAccuracy::update(const Tensor& label, const Tensor& prediction) {
  check_defined(name(), label, prediction);
  const Scores scores = scores_of(name(), label, prediction, axis_);
  for (std::size_t i = 0; i < scores.labels.size(); ++i) {
    if (ignore_label_ == scores.labels[i]) continue;
    const std::size_t wanted = label_in_range(name(), scores, i);
    const double* row = scores.row(i);
    std::int64_t before = 0;
    for (std::size_t c = 0; c < scores.classes; ++c)
      before += row[c] > row[wanted] || (row[c] == row[wanted] && c < wanted);
    add(before < k_ && !std::isnan(row[wanted]) ? 1.0 : 0.0);
  }
}

void BinaryMetric::update(const Tensor& label, const Tensor& prediction) {
  check_defined(name(), label, prediction);
  const auto count = [&](double t, bool positive) {
    if (t != 0.0 && t != 1.0) throw InvalidArgument("{}: label is {}, expected 0 or 1", name(), t);
    (t == 1.0 ? (positive ? counts_.true_positive : counts_.false_negative)
              : (positive ? counts_.false_positive : counts_.true_negative)) += 1.0;
  };
  if (label.numel() == prediction.numel()) {
    for_pairs(name(), label, prediction, [&](double t, double p) { count(t, p > 0.5); });
    return;
  }
  const Scores scores = scores_of(name(), label, prediction, -1);
  if (scores.classes != 2)
    throw InvalidArgument("{}: predictions have {} classes, expected 2", name(), scores.classes);
  for (std::size_t i = 0; i < scores.labels.size(); ++i)
    count(static_cast<double>(scores.labels[i]), scores.best(i) == 1);
}

Metric::Value F1::get() const {
  const Counts& c = counts();
  const double wrong = c.false_positive + c.false_negative;
  if (wrong + c.true_positive + c.true_negative == 0.0) return {name(), kNone};
  const double both = 2.0 * c.true_positive + wrong;
  return {name(), both == 0.0 ? 0.0 : 2.0 * c.true_positive / both};
}

Metric::Value MCC::get() const {
  const auto [tp, fp, tn, fn] = counts();
  if (tp + fp + tn + fn == 0.0) return {name(), kNone};
  // An empty row or column of the table counts as 1, which makes the coefficient 0.
  double product = 1.0;
  for (const double sum : {tp + fp, tp + fn, tn + fp, tn + fn}) product *= sum == 0.0 ? 1.0 : sum;
  return {name(), (tp * tn - fp * fn) / std::sqrt(product)};
}

void MAE::update(const Tensor& label, const Tensor& prediction) {
  for_pairs(name(), label, prediction, [&](double t, double p) { add(std::abs(t - p)); });
}

void MSE::update(const Tensor& label, const Tensor& prediction) {
  for_pairs(name(), label, prediction, [&](double t, double p) { add((t - p) * (t - p)); });
}

Metric::Value RMSE::get() const { return {name(), std::sqrt(mean())}; }

void CrossEntropy::update(const Tensor& label, const Tensor& prediction) {
  check_defined(name(), label, prediction);
  const Scores scores = scores_of(name(), label, prediction, options_.axis);
  for (std::size_t i = 0; i < scores.labels.size(); ++i) {
    if (options_.ignore_label == scores.labels[i]) continue;
    const double* row = scores.row(i);
    const double value = row[label_in_range(name(), scores, i)];
    add(options_.from_scores ? log_sum_exp(row, scores.classes) - value
                             : -std::log(std::max(value, 1e-12)));
  }
}

Metric::Value Perplexity::get() const { return {name(), std::exp(mean())}; }

// Welford's way: means move, and sums of products about them grow.
void PearsonCorrelation::update(const Tensor& label, const Tensor& prediction) {
  for_pairs(name(), label, prediction, [&](double t, double p) {
    Moments& m = moments_;
    m.count += 1.0;
    const double off_label = t - m.label, off_prediction = p - m.prediction;
    m.label += off_label / m.count;
    m.prediction += off_prediction / m.count;
    m.label_square += off_label * (t - m.label);
    m.prediction_square += off_prediction * (p - m.prediction);
    m.both += off_label * (p - m.prediction);
  });
}

Metric::Value PearsonCorrelation::get() const {
  const Moments& m = moments_;
  const double spread = std::sqrt(m.label_square) * std::sqrt(m.prediction_square);
  return {name(), spread > 0.0 ? m.both / spread : kNone};
}

void LossMetric::update(const Tensor&, const Tensor& prediction) {
  if (!prediction.defined()) throw InvalidArgument("loss: the prediction is undefined");
  for (const double value : prediction.to_vector<double>()) add(value);
}

CustomMetric::CustomMetric(std::string name, Function function)
    : MeanMetric(std::move(name)), function_(std::move(function)) {
  if (!function_) throw InvalidArgument("{}: there is no function", this->name());
}

void CustomMetric::update(const Tensor& label, const Tensor& prediction) {
  check_defined(name(), label, prediction);
  const std::int64_t samples = label.rank() == 0 ? 1 : label.shape(0);
  add(function_(label, prediction) * static_cast<double>(samples), samples);
}

CompositeMetric& CompositeMetric::add(MetricPtr metric) {
  if (metric == nullptr) throw InvalidArgument("composite: the metric is null");
  metrics_.push_back(std::move(metric));
  return *this;
}

void CompositeMetric::update(const Tensor& label, const Tensor& prediction) {
  for (const MetricPtr& metric : metrics_) metric->update(label, prediction);
}

void CompositeMetric::update_all(const std::vector<Tensor>& labels,
                                 const std::vector<Tensor>& outputs) {
  for (const MetricPtr& metric : metrics_) metric->update_all(labels, outputs);
}

void CompositeMetric::reset() {
  for (const MetricPtr& metric : metrics_) metric->reset();
}

Metric::Value CompositeMetric::get() const {
  return metrics_.empty() ? Value{name(), kNone} : metrics_.front()->get();
}

std::vector<Metric::Value> CompositeMetric::get_all() const {
  std::vector<Value> values;
  for (const MetricPtr& metric : metrics_)
    for (Value& value : metric->get_all()) values.push_back(std::move(value));
  return values;
}

namespace {

struct Maker {
  const char* name;
  MetricPtr (*make)(const MetricOptions& options);
};

CrossEntropyMetricOptions entropy_options(const MetricOptions& options) {
  return {options.axis, options.from_scores, options.ignore_label};
}

template <class M>
MetricPtr plain(const MetricOptions&) {
  return std::make_unique<M>();
}

template <class M>
MetricPtr entropy(const MetricOptions& options) {
  return std::make_unique<M>(entropy_options(options));
}

constexpr Maker kMakers[] = {{"accuracy",
                              [](const MetricOptions& o) -> MetricPtr {
                                return std::make_unique<Accuracy>(o.axis, o.ignore_label);
                              }},
                             {"top_k_accuracy",
                              [](const MetricOptions& o) -> MetricPtr {
                                return std::make_unique<TopKAccuracy>(o.k, o.axis, o.ignore_label);
                              }},
                             {"f1", plain<F1>},
                             {"mcc", plain<MCC>},
                             {"auc", plain<AUC>},
                             {"mae", plain<MAE>},
                             {"mse", plain<MSE>},
                             {"rmse", plain<RMSE>},
                             {"cross_entropy", entropy<CrossEntropy>},
                             {"perplexity", entropy<Perplexity>},
                             {"pearson_correlation", plain<PearsonCorrelation>},
                             {"loss", plain<LossMetric>}};

}  // namespace

MetricPtr metric(std::string_view name, const MetricOptions& options) {
  std::string known;
  for (const Maker& maker : kMakers) {
    if (name == maker.name) return maker.make(options);
    known += (known.empty() ? "" : ", ") + std::string(maker.name);
  }
  throw NotFound("metric: there is no '{}' (there are: {})", name, known);
}

std::vector<std::string> metric_names() {
  std::vector<std::string> names;
  for (const Maker& maker : kMakers) names.emplace_back(maker.name);
  return names;
}

}  // namespace lockstep::nn
