// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/nn/metric.h"

namespace lockstep::nn {

// The area under the ROC curve: how often a sample of class 1 has a higher score than one of class
// 0, where equal scores count a half. Exact: it keeps every score. Labels are 0 or 1; predictions
// are scores of class 1 [N], in any units, or scores of both [N, 2]. NaN while there is one class
// only, and when a score is.
class AUC : public Metric {
 public:
  AUC() : Metric("auc") {}
  void update(const Tensor& label, const Tensor& prediction) override;
  void reset() override { samples_.clear(); }
  Value get() const override;

 private:
  struct Sample {
    double score;
    bool positive;
  };
  std::vector<Sample> samples_;
};

}  // namespace lockstep::nn
