// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/trainer.h"

#include "lockstep/cluster/membership/place.h"
#include "lockstep/kvstore/mesh_mode.h"
#include "lockstep/train/detail/fit.h"

namespace lockstep::train {
namespace {

void check_options(const TrainerOptions& options) {
  if (options.global_batch < 1)
    throw InvalidArgument("train: the global batch is {}, expected 1 or more",
                          options.global_batch);
  check_shares(options.shards, options.threads, kvstore::replicas_of(*options.mode));
  if (options.global_batch % options.shards != 0)
    throw InvalidArgument(
        "train: a global batch of {} cannot be dealt into {} shards: choose a multiple",
        options.global_batch, options.shards);
  if (options.survival != nullptr && options.mode->slot_place() == kvstore::SlotPlace::shared)
    throw Unsupported(
        "train: workers that each have a part of the state cannot survive the loss of one: "
        "expected "
        "shard-state 0, or no survival");
  if (options.mesh.segments < 1)
    throw InvalidArgument("train: {} segments, expected 1 or more", options.mesh.segments);
  const auto cut = static_cast<std::int64_t>(options.mesh.cuts.size()) + 1;
  if (cut > 1 && options.mesh.segments > 1 && options.mesh.segments != cut)
    throw InvalidArgument("train: {} cuts make {} segments, not {}", cut - 1, cut,
                          options.mesh.segments);
  if (options.mesh.slices < 1)
    throw InvalidArgument("train: {} slices, expected 1 or more", options.mesh.slices);
  if (kvstore::mesh_links_of(*options.mode) == nullptr) return;
  if (options.survival != nullptr || options.deals_by_speed)
    throw Unsupported(
        "train: workers that have parts of a net neither change while it runs, nor share shards by "
        "speed");
}

// A program that somebody has launched, and that has not given its job to the trainer, trains as
// often as it was started, each time by itself.
void warn_if_alone(FitContext& fit) {
  std::optional<cluster::Place> place;
  try {
    place = cluster::find_place();
  } catch (const Error&) {
    return;  // whoever joins the job hears of it
  }
  if (!place || place->role != Role::worker || place->workers < 2 || place->rank > 0) return;
  fit.warn(
      fmt::format("this process is one of {} workers of a job, and trains by itself, as each of "
                  "them does: give the trainer the job (Python: job=ls.join_job(); C++: "
                  "TrainerOptions::mode of train::join_job())",
                  place->workers));
}

// Whose net callbacks look at, while it lives.
class Fitting {
 public:
  Fitting(FitContext*& place, FitContext& fit) : place_(place), outer_(place) { place = &fit; }
  ~Fitting() { place_ = outer_; }
  Fitting(const Fitting&) = delete;
  Fitting& operator=(const Fitting&) = delete;

 private:
  FitContext*& place_;
  FitContext* outer_;
};

}  // namespace

std::int64_t default_shards(std::int64_t global_batch) {
  for (std::int64_t shards = 8; shards > 1; --shards)
    if (global_batch % shards == 0 && global_batch / shards >= 8) return shards;
  return 1;
}

Trainer::Trainer(nn::BlockPtr net, LossFunction loss, optim::OptimizerPtr optimizer,
                 const TrainerOptions& options)
    : net_(std::move(net)),
      loss_(std::move(loss)),
      optimizer_(std::move(optimizer)),
      options_(options) {
  if (net_ == nullptr || !loss_ || optimizer_ == nullptr)
    throw InvalidArgument("train: a trainer needs a net, a loss and an optimiser");
  if (options_.mesh.shards > 0) options_.shards = options_.mesh.shards;
  if (options_.shards == 0) options_.shards = default_shards(options_.global_batch);
  if (options_.mode == nullptr) {
    alone_ = kvstore::local_mode();
    options_.mode = alone_.get();
  }
  check_options(options_);
  if (!options_.accuracy) loss_ = loss_.without_classes();
  evaluator_ = std::make_unique<Evaluator>(net_, loss_, options_.compile, options_.fields);
  predictor_ = std::make_unique<Predictor>(net_, options_.compile, options_.fields);
}

Trainer::~Trainer() = default;

FitResult Trainer::fit(const data::DatasetPtr& dataset, const FitOptions& options) {
  if (options_.survival != nullptr && options_.survival->has_ended())
    throw InvalidArgument(
        "train: a job that survives losses has one run, and this worker's is over: expected one "
        "fit, or a job that does not survive (JobOptions::survives)");
  detail::Fit fit({net_, loss_, optimizer_, options_, evaluator_.get()}, dataset, options);
  const Fitting fitting(fitting_, fit);
  if (alone_) warn_if_alone(fit);
  return fit.run();
}

// A callback sees what the fit has learned so far.
void Trainer::bring_net_up_to_date() {
  if (fitting_ != nullptr) fitting_->net();
}

Evaluation Trainer::evaluate(const data::Dataset& dataset, EvaluateOptions options) {
  bring_net_up_to_date();
  if (options.threads == 0) options.threads = options_.threads;
  return evaluator_->run(dataset, options);
}

Tensor Trainer::predict(const data::DatasetPtr& dataset, const PredictOptions& options) {
  return predict_all(dataset, options).at(0);
}

std::vector<Tensor> Trainer::predict_all(const data::DatasetPtr& dataset, PredictOptions options) {
  bring_net_up_to_date();
  if (options.threads == 0) options.threads = options_.threads;
  return predictor_->run(dataset, options);
}

}  // namespace lockstep::train
