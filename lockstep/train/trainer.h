// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/data/sampler.h"
#include "lockstep/optim/schedule.h"
#include "lockstep/train/callback.h"
#include "lockstep/train/evaluate.h"
#include "lockstep/train/mesh.h"
#include "lockstep/train/predict.h"
#include "lockstep/train/step_engine.h"
#include "lockstep/train/survival.h"

namespace lockstep::train {

struct DivergedTag {
  static constexpr const char* kName = "Diverged";
};
// Training left the numbers: the loss is NaN or infinite.
using Diverged = TypedError<DivergedTag>;

struct TrainerOptions {
  std::int64_t global_batch = 128;
  // Every global batch is dealt into this many equal parts, each computed by one thread. More
  // shards than threads need less memory for the same batch: that is gradient accumulation. Batch
  // norm sees one shard at a time. 0: default_shards(global_batch).
  std::int64_t shards = 0;
  int threads = 1;  // changes the speed, never the result
  std::uint64_t seed = 0;
  // Into which segments the net is cut: docs/model_parallel.md.
  Mesh mesh = {};
  // How a pipeline's workers go through their shards, and whether forward passes are computed again
  // instead of being kept. They change memory and speed, never the result.
  parallel::ScheduleKind schedule = parallel::ScheduleKind::one_f_one_b;
  bool recompute = false;
  // What each field of a sample is for: {input("user"), input("item"), label("rating")}. None: a
  // sample has two, the net's input and the loss's label.
  FieldRoles fields = {};
  // What is right is told by the loss (Loss::classes, LossFunction); false: no accuracy.
  bool accuracy = true;
  // `compute = DType::bfloat16` is mixed precision; parameters stay float32.
  CompileOptions compile = {};
  // Of a job of several workers, each with a trainer of the same options: it computes its range of
  // the shards, or, where the mode's workers are not in step, tickets: equal parts of steps, each
  // of which whoever is free computes. Only rank 0 writes checkpoints; callbacks are each worker's
  // own, and those that ask to stop must do so on all. Null: one process.
  kvstore::Mode* mode = nullptr;
  // Of a job that survives the loss of workers, where they are in step: `mode` is that of the first
  // generation, or, of a worker that comes late, its own alone. Null: a loss ends the run.
  Survival* survival = nullptr;
  // Let in workers that compute other bits from the same input; FitResult::same_bits tells.
  bool allow_different_bits = false;
  // Shards are dealt by how long the workers compute, again and again, where that pays: a slow one
  // gets fewer. Of workers in step whose mode is invariant, so that no bit changes.
  bool deals_by_speed = false;
};

// 8, or fewer, so that they divide the batch and have 8 samples each or more where they can.
std::int64_t default_shards(std::int64_t global_batch);

struct FitOptions {
  std::int64_t epochs = 1;
  std::int64_t steps = 0;  // in all, instead of epochs, when it is not 0
  data::Transform transform = {};
  data::SamplerPtr sampler = {};  // none: a new random order each epoch
  optim::Schedule schedule = {};  // none: the optimiser's learning rate
  std::vector<CallbackPtr> callbacks = {};

  data::DatasetPtr validation = {};
  data::Transform validation_transform = {};
  std::vector<std::shared_ptr<nn::Metric>> metrics = {};  // besides loss and accuracy
  std::int64_t validation_batch = 0;                      // 0: 64
  // Computed with each evaluation, in predict mode, on the first samples of the training set (0:
  // all of them) with the validation's transform; the record has them as "train_" and their name.
  std::vector<std::shared_ptr<nn::Metric>> train_metrics = {};
  std::int64_t train_metric_samples = 0;
  std::int64_t evaluate_every = 0;  // steps; 0: at the end of each epoch. And after the last step

  std::string checkpoints = {};       // folder; empty: none are written
  std::int64_t checkpoint_every = 0;  // steps; 0: at the end of each epoch. And after the last step
  std::int64_t keep_last = 3;
  // What the best checkpoint is the best in; none: accuracy, or loss where there is none.
  std::optional<Monitor> monitor = {};
  // Go on from the newest good checkpoint; from the start when there is none.
  bool resume = false;
  // JSON object: more that must be the same to resume, such as a recipe's name.
  std::string configuration = "{}";
  // Keys that an older checkpoint's configuration may lack, with what their lack means.
  std::string older_configuration = "{}";
  // Keys that may be another than the checkpoint's: a run that is made longer has another schedule.
  std::vector<std::string> may_differ = {};

  // Set by anyone, a signal handler too: the run finishes its step, writes a checkpoint and returns
  // with `stopped`.
  const std::atomic<bool>* stop = nullptr;
  // Of a job that survives: set, this worker leaves it after its step, and the others go on
  // (FitResult::is_dismissed). The only one stops instead.
  const std::atomic<bool>* leave = nullptr;

  int loader_threads = 1;
  std::int64_t prefetch = 4;
  bool skip_bad = false;  // a Corrupt sample is a warning, and another one takes its place
};

// The reason to stop of a run whose FitOptions::stop was set.
inline constexpr const char* kInterrupted = "interrupted";

// How a run went on when its workers had changed.
struct Recovery {
  std::int64_t generation = 0;
  std::int64_t step = 0;  // the last one before it
  int workers = 0;        // from then on
  double seconds = 0.0;   // from the failure, or the wish, until the next step was committed
  std::string why = {};
};

struct FitResult {
  std::int64_t steps = 0;         // done in all
  std::int64_t resumed_from = 0;  // steps that were done before
  std::int64_t epochs = 0;        // whole ones done
  bool stopped = false;           // asked to, before the end
  std::string stop_reason = {};   // "interrupted", or a callback's
  double train_loss = 0.0;        // mean over the steps of the last epoch
  double train_accuracy = 0.0;    // 0 where there is none
  bool has_accuracy = false;
  Evaluation validation = {};  // the last one
  std::vector<EvaluationRecord> history = {};
  double seconds = 0.0;
  // Without set-up, compilation, the first two steps, evaluation and waiting for checkpoints.
  double samples_per_s = 0.0;
  std::size_t step_bytes = 0;
  std::string params_sha256 = {};
  bool same_bits = true;  // all workers compute the same from the same input
  std::string isa = {};   // the instruction set of the last steps: "avx512"
  bool same_isa = true;   // and of those before a checkpoint too
  // Of all workers' pushes, where they are not in step; none before a resume.
  std::optional<kvstore::PushesSeen> pushes = {};
  // Of a job that survives: this worker has left before the end, or came too late for it, and has
  // nothing to tell.
  bool is_dismissed = false;
  bool is_first = true;                 // of the workers at the end
  std::vector<std::int64_t> deal = {};  // shards of each worker at the end, by rank
  int deals = 0;                        // how often that has changed since they computed together
  std::int64_t generation = 0;          // the last one
  std::int64_t steps_lost = 0;          // committed somewhere, and computed again
  std::vector<Recovery> recoveries = {};
  std::vector<cluster::MembershipEvent> events = {};
  std::string checkpoint = {};             // the newest file
  bool saved = false;                      // it has the parameters of the last step
  std::vector<std::string> warnings = {};  // the first and the last of them where they are many
  std::optional<RunCost> cost = {};        // of several workers that are in step
  // Of a pipeline: the part of the passes' time in which its stages waited for one another.
  std::optional<double> bubble = {};
  std::vector<double> peak_memory_mb_by_worker = {};  // by rank
};

// Trains a net: S shards a step, one thread each, gradients summed in the canonical tree order.
// What it leaves is a function of the net, the data, the options and the seed.
class Trainer {
 public:
  // A net without contents is initialised by the seed. Throws InvalidArgument when the shards do
  // not divide the global batch.
  Trainer(nn::BlockPtr net, LossFunction loss, optim::OptimizerPtr optimizer,
          const TrainerOptions& options = {});
  ~Trainer();

  // One run from its first step (or from a checkpoint) to its end; the net has the result. Throws
  // Diverged when the loss is no number any more.
  FitResult fit(const data::DatasetPtr& dataset, const FitOptions& options = {});
  // With the trainer's threads, unless told otherwise.
  Evaluation evaluate(const data::Dataset& dataset, EvaluateOptions options = {.threads = 0});

  // What the net says to every sample, in the data set's order, along a first axis: its first
  // output, and each of them. Labels are not needed. With the trainer's threads, unless told
  // otherwise.
  Tensor predict(const data::DatasetPtr& dataset, const PredictOptions& options = {.threads = 0});
  std::vector<Tensor> predict_all(const data::DatasetPtr& dataset,
                                  PredictOptions options = {.threads = 0});

  nn::Block& net() { return *net_; }

 private:
  void bring_net_up_to_date();

  nn::BlockPtr net_;
  LossFunction loss_;
  optim::OptimizerPtr optimizer_;
  std::unique_ptr<kvstore::Mode> alone_;  // where the options have none
  TrainerOptions options_;
  std::unique_ptr<Evaluator> evaluator_;
  std::unique_ptr<Predictor> predictor_;
  FitContext* fitting_ = nullptr;  // while fit() runs, whose callbacks may call the others
};

}  // namespace lockstep::train
