// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/data/dataset.h"
#include "lockstep/data/transform.h"
#include "lockstep/graph/executable.h"
#include "lockstep/kvstore/group.h"
#include "lockstep/kvstore/mesh_links.h"
#include "lockstep/nn/block.h"
#include "lockstep/nn/metric.h"
#include "lockstep/train/step_engine.h"

namespace lockstep::train {

struct EvaluateOptions {
  // Its workers share the batches where nobody looks at outputs (metrics, on_batch, on_outputs);
  // null: alone.
  kvstore::Group* group = nullptr;
  std::int64_t batch = 0;  // 0: 64
  int threads = 1;
  data::Transform transform = {};  // of each sample's first field
  // Keep the predicted and the true class of each label.
  bool keep_predictions = false;
  // Reset, then given every batch in order (Metric::update_all).
  std::vector<std::shared_ptr<nn::Metric>> metrics = {};
  // Called with each batch's first output and label (undefined where there is none), in the order
  // of the batches, by the caller's thread; and with all of them.
  std::function<void(const Tensor& output, const Tensor& label)> on_batch = {};
  std::function<void(const Tensors& outputs, const Tensors& labels)> on_outputs = {};
  // Set by anyone, a signal handler too: the evaluation ends early, and is not `whole`.
  const std::atomic<bool>* stop = nullptr;
  // Of a net that is cut (docs/model_parallel.md): its segments are compiled apart, as a step's
  // are. The cuts are in the order in which a step calls them; predict mode may leave some out.
  std::vector<std::string> cuts = {};
  // By parameter, the segment that has it; empty: the lowest that reads it.
  std::vector<std::int32_t> homes = {};
  // Of a pipeline's worker: it computes its own stage, with the others of its pipeline, and has the
  // results that they have. Its parameters come from `parameter`, by their numbers in the net's
  // list; null: the net has all of them.
  kvstore::MeshLinks* links = nullptr;
  std::function<Tensor(std::size_t number)> parameter = {};
  // Nothing that is compiled stays: the next evaluation makes it again.
  bool keep_compiled = true;
};

struct Evaluation {
  double loss = 0.0;      // mean over the samples
  double accuracy = 0.0;  // over all labels, as the loss counts them; 0 where it knows no classes
  bool has_accuracy = false;
  std::int64_t samples = 0;
  bool whole = true;                                         // false: stopped before the end
  std::vector<std::pair<std::string, double>> metrics = {};  // what the options' metrics say
  std::vector<std::int64_t> predictions = {};                // in the data set's order
  std::vector<std::int64_t> labels = {};
};

// Runs a net in predict mode over a data set, in order, the last incomplete batch included. What it
// returns does not depend on the number of threads.
class Evaluator {
 public:
  // Without roles a sample's fields are an input and a label.
  Evaluator(nn::BlockPtr net, LossFunction loss, CompileOptions compile = {},
            FieldRoles fields = {});
  ~Evaluator();
  // With the parameters that the net has now.
  Evaluation run(const data::Dataset& dataset, const EvaluateOptions& options = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::train
