// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/data/dataset.h"
#include "lockstep/data/transform.h"
#include "lockstep/train/evaluate.h"

namespace lockstep::train {

struct PredictOptions {
  std::int64_t batch = 0;  // 0: 64
  int threads = 1;
  data::Transform transform = {};  // of each sample's first field
  bool has_label = true;           // the samples' last field is one, which the net does not get
};

// A net's outputs in predict mode, for every sample of a data set, in order. They do not depend on
// the number of threads.
class Predictor {
 public:
  explicit Predictor(nn::BlockPtr net, CompileOptions compile = {});
  ~Predictor();
  // With the parameters that the net has now. Throws InvalidArgument when the set is empty or two
  // outputs are not alike.
  Tensor run(const data::DatasetPtr& dataset, const PredictOptions& options = {});

 private:
  Evaluator evaluator_;
};

}  // namespace lockstep::train
