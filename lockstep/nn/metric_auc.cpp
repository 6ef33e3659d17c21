// SPDX-License-Identifier: Apache-2.0

#include "lockstep/nn/metric_auc.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lockstep/base/error.h"

namespace lockstep::nn {
namespace {

// Of class 1, one a sample.
std::vector<double> scores_of(const std::string& metric, const Tensor& label,
                              const Tensor& prediction) {
  std::vector<double> scores = prediction.to_vector<double>();
  if (prediction.numel() == label.numel()) return scores;
  const int rank = prediction.rank();
  if (rank == 0 || prediction.shape(rank - 1) != 2 || prediction.numel() != 2 * label.numel())
    throw InvalidArgument("{}: label has shape {}, which does not fit predictions of shape {}",
                          metric, label.shape().str(), prediction.shape().str());
  for (std::size_t i = 0; i < scores.size() / 2; ++i) scores[i] = scores[2 * i + 1] - scores[2 * i];
  scores.resize(scores.size() / 2);
  return scores;
}

}  // namespace

void AUC::update(const Tensor& label, const Tensor& prediction) {
  if (!label.defined() || !prediction.defined())
    throw InvalidArgument("{}: the {} is undefined", name(),
                          prediction.defined() ? "label" : "prediction");
  const std::vector<double> labels = label.to_vector<double>();
  const std::vector<double> scores = scores_of(name(), label, prediction);
  for (const double value : labels)
    if (value != 0.0 && value != 1.0)
      throw InvalidArgument("{}: label is {}, expected 0 or 1", name(), value);
  for (std::size_t i = 0; i < labels.size(); ++i) samples_.push_back({scores[i], labels[i] == 1.0});
}

// Mann and Whitney's U: the sum of the positive samples' ranks, each among equals the middle one,
// less the least that it can be. Ranks and counts are halves and whole numbers: exact in float64.
Metric::Value AUC::get() const {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  for (const Sample& sample : samples_)
    if (std::isnan(sample.score)) return {name(), kNone};
  std::vector<Sample> sorted = samples_;
  std::sort(sorted.begin(), sorted.end(),
            [](const Sample& a, const Sample& b) { return a.score < b.score; });
  double positives = 0, ranks = 0;
  for (std::size_t begin = 0, end = 0; begin < sorted.size(); begin = end) {
    double here = 0;
    for (; end < sorted.size() && sorted[end].score == sorted[begin].score; ++end)
      here += sorted[end].positive ? 1.0 : 0.0;
    positives += here;
    ranks += here * static_cast<double>(begin + end + 1) / 2.0;
  }
  const double negatives = static_cast<double>(sorted.size()) - positives;
  if (positives == 0.0 || negatives == 0.0) return {name(), kNone};
  return {name(), (ranks - positives * (positives + 1.0) / 2.0) / (positives * negatives)};
}

}  // namespace lockstep::nn
