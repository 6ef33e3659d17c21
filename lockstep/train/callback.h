// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/shard_tree.h"
#include "lockstep/cluster/membership/membership_event.h"
#include "lockstep/nn/block.h"
#include "lockstep/train/evaluate.h"
#include "lockstep/train/step_cost.h"

namespace lockstep::train {

struct StepEvent {
  std::int64_t step = 0;   // steps done, this one included
  std::int64_t epoch = 0;  // from 0
  double loss = 0.0;       // of this step's global batch
  double accuracy = 0.0;   // 0 where there is none
  bool has_accuracy = false;
  double learning_rate = 0.0;
  double samples_per_s = 0.0;  // steady rate so far; 0 in the first two steps
  double seconds = 0.0;        // of training so far, what was before a resume not included
  // Of a worker that is not in step with the others, which tells of the tickets it has computed: by
  // how many pushes of others its weights were older than those that its gradients met, on average.
  std::optional<double> staleness = {};
  // And by how many steps those tickets were ahead of the oldest one under way, at most: what
  // ps_ssp bounds.
  std::optional<std::uint64_t> steps_ahead = {};
  std::optional<StepCost> cost = {};  // of several workers that are in step
};

struct EpochEvent {
  std::int64_t step = 0;
  std::int64_t epoch = 0;  // the one that ended, from 0
  double loss = 0.0;       // mean over its steps
  double accuracy = 0.0;   // 0 where there is none
  bool has_accuracy = false;
};

// What is remembered of an evaluation: checkpoints carry the list of all of them.
struct EvaluationRecord {
  std::int64_t step = 0;
  std::int64_t epoch = 0;  // the one that its last step belongs to, from 1
  std::vector<std::pair<std::string, double>> metrics;  // "loss", "accuracy", ...
  // Throws NotFound with the names there are.
  double metric(const std::string& name) const;
};

// A number to watch and the direction in which it gets better.
struct Monitor {
  std::string metric = "accuracy";
  bool maximize = true;
  double min_delta = 0.0;  // less than this is no improvement
  bool is_better(double value, double than) const {
    return maximize ? value > than + min_delta : value < than - min_delta;
  }
};

// What a callback may ask of a run, and ask it to do.
class FitContext {
 public:
  virtual ~FitContext() = default;
  // With the parameters of the last step. What is set in it training goes on with; every worker
  // sets the same. Where workers have a part of the parameters each, it has those of the run's
  // begin, last evaluation or end, and is set there alone.
  virtual nn::Block& net() = 0;
  virtual std::int64_t step() const = 0;         // steps done
  virtual std::int64_t first_step() const = 0;   // steps done before: not 0 after a resume
  virtual std::int64_t total_steps() const = 0;  // to do in all
  virtual std::int64_t steps_per_epoch() const = 0;
  virtual std::int64_t global_batch() const = 0;
  virtual const std::vector<EvaluationRecord>& history() const = 0;
  virtual const data::Dataset& train_set() const = 0;
  virtual const data::Dataset* validation_set() const = 0;
  // Whether this worker is the first, which writes and shows. Another one may become it.
  virtual bool is_first() const = 0;
  // Of each step, the shards that this worker computes.
  virtual ShardRange shards() const = 0;
  // What has happened to the workers so far, of a job that survives losses.
  virtual std::vector<cluster::MembershipEvent> membership_events() const = 0;
  // After this step.
  virtual void request_stop(const std::string& reason) = 0;
  virtual void warn(const std::string& line) = 0;
};

struct FitResult;

// Is told what happens in a run. All calls come from the thread that called fit.
class Callback {
 public:
  virtual ~Callback() = default;
  virtual void on_train_begin(FitContext&) {}
  virtual void on_step_end(FitContext&, const StepEvent&) {}
  virtual void on_epoch_end(FitContext&, const EpochEvent&) {}
  // The record is the last of history(). After the epoch's end where both fall on one step.
  virtual void on_evaluation(FitContext&, const Evaluation&) {}
  virtual void on_warning(FitContext&, const std::string&) {}
  // The workers have changed; the run goes on from step().
  virtual void on_generation(FitContext&) {}
  // The same workers have other shards from here on.
  virtual void on_deal(FitContext&) {}
  virtual void on_train_end(FitContext&, const FitResult&) {}
  // Whether on_evaluation looks at predictions and labels.
  virtual bool wants_predictions() const { return false; }
};

using CallbackPtr = std::shared_ptr<Callback>;

// Stops when the metric has not become better in `patience` evaluations. A function of the history,
// so that a resumed run stops where the uninterrupted one does.
CallbackPtr early_stopping(const Monitor& monitor, int patience);
// Saves the net's parameters whenever the metric is the best so far.
CallbackPtr best_model(const std::string& path, const Monitor& monitor);

// What the first worker alone has: it is made there when the run begins, and by the worker that
// takes its place, which is told of the last step again.
CallbackPtr on_first_worker(std::function<CallbackPtr()> make);

// Calls the function after every step.
CallbackPtr on_step(std::function<void(FitContext&, const StepEvent&)> function);
// After every epoch.
CallbackPtr on_epoch(std::function<void(FitContext&, const EpochEvent&)> function);
// After every evaluation.
CallbackPtr on_evaluation(std::function<void(FitContext&, const Evaluation&)> function);

}  // namespace lockstep::train
