// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/trainer.h"

#include "lockstep/train/detail/fit.h"

namespace lockstep::train {
namespace {

void check_options(const TrainerOptions& options) {
  if (options.global_batch < 1)
    throw InvalidArgument("train: the global batch is {}, expected 1 or more",
                          options.global_batch);
  if (options.shards < 1)
    throw InvalidArgument("train: at least 1 shard is needed, got {}", options.shards);
  if (options.global_batch % options.shards != 0)
    throw InvalidArgument(
        "train: a global batch of {} cannot be dealt into {} shards: choose a multiple",
        options.global_batch, options.shards);
  if (options.threads < 1)
    throw InvalidArgument("train: at least 1 thread is needed, got {}", options.threads);
  if (options.exchange && options.exchange->workers() > options.shards)
    throw InvalidArgument("train: {} workers cannot share {} shards: each needs one",
                          options.exchange->workers(), options.shards);
}

}  // namespace

Trainer::Trainer(nn::BlockPtr net, LossFunction loss, optim::OptimizerPtr optimizer,
                 const TrainerOptions& options)
    : net_(std::move(net)),
      loss_(std::move(loss)),
      optimizer_(std::move(optimizer)),
      options_(options) {
  if (net_ == nullptr || !loss_ || optimizer_ == nullptr)
    throw InvalidArgument("train: a trainer needs a net, a loss and an optimiser");
  check_options(options_);
  evaluator_ = std::make_unique<Evaluator>(net_, loss_, options_.compile);
}

Trainer::~Trainer() = default;

FitResult Trainer::fit(const data::DatasetPtr& dataset, const FitOptions& options) {
  return detail::Fit({net_, loss_, optimizer_, options_, evaluator_.get()}, dataset, options).run();
}

Evaluation Trainer::evaluate(const data::Dataset& dataset, EvaluateOptions options) {
  if (options.threads == 0) options.threads = options_.threads;
  return evaluator_->run(dataset, options);
}

}  // namespace lockstep::train
