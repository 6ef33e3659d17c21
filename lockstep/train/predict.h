// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/data/dataset.h"
#include "lockstep/data/transform.h"
#include "lockstep/train/evaluate.h"

namespace lockstep::train {

struct PredictOptions {
  std::int64_t batch = 0;  // 0: 64
  int threads = 1;
  data::Transform transform = {};  // of the whole sample as it comes, as in evaluate
};

// A net's outputs in predict mode, for every sample of a data set, in order. They do not depend on
// the number of threads.
class Predictor {
 public:
  // `fields` are those of training, labels included; samples may also have the inputs alone. None:
  // one input, and a label that nobody looks at, or none.
  explicit Predictor(nn::BlockPtr net, CompileOptions compile = {}, FieldRoles fields = {});
  ~Predictor();
  // With the parameters that the net has now: each of its outputs, joined along the first axis.
  // Throws InvalidArgument when the set is empty, the outputs of two batches are not alike or
  // the first axis of one is not that of the samples.
  std::vector<Tensor> run(const data::DatasetPtr& dataset, const PredictOptions& options = {});

 private:
  FieldRoles fields_;
  Evaluator evaluator_;
};

}  // namespace lockstep::train
