// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "lockstep/data/subset.h"
#include "lockstep/kvstore/mesh_mode.h"
#include "lockstep/train/detail/evaluations.h"
#include "lockstep/train/detail/fit.h"

namespace lockstep::train::detail {

void Fit::evaluate() {
  if (options_.validation == nullptr || evaluated_step_ == step_) return;
  const bool keep = std::any_of(options_.callbacks.begin(), options_.callbacks.end(),
                                [](const CallbackPtr& c) { return c->wants_predictions(); });
  bring_net();  // callbacks look at it
  take_set_parameters();
  Evaluation evaluation = evaluate_on(*options_.validation, options_.metrics, keep);
  if (evaluation.whole) add_train_metrics(evaluation);
  if (!is_whole_everywhere(evaluation)) return request_stop(kInterrupted);
  result_.validation = std::move(evaluation);
  evaluated_step_ = step_;
  written_step_ = -1;  // what is written knows nothing of it
  const std::int64_t epoch = (step_ + steps_per_epoch() - 1) / steps_per_epoch();
  state_.history.push_back(record_of(result_.validation, step_, epoch));
  count_reductions();
  for (const CallbackPtr& callback : options_.callbacks)
    callback->on_evaluation(*this, result_.validation);
}

Evaluation Fit::evaluate_on(const data::Dataset& dataset,
                            const std::vector<std::shared_ptr<nn::Metric>>& metrics, bool keep) {
  EvaluateOptions options{.group = &group(),
                          .batch = options_.validation_batch,
                          .threads = parts_.options.threads,
                          .transform = options_.validation_transform,
                          .keep_predictions = keep,
                          .metrics = metrics,
                          .stop = options_.stop,
                          .cuts = engine_->cuts(),
                          .homes = engine_->segments_of_parameters(),
                          .keep_compiled = !engine_->is_partial()};
  kvstore::MeshLinks* const links = kvstore::mesh_links_of(*parts_.options.mode);
  if (links != nullptr && links->has_stages()) options.links = links;
  // Of a net in slices a worker has some of each; the whole is in the net.
  if (options.links != nullptr && !options.homes.empty())
    options.parameter = [this](std::size_t number) { return engine_->parameter(number); };
  return alone([&] { return parts_.evaluator->run(dataset, options); });
}

void Fit::add_train_metrics(Evaluation& evaluation) {
  if (options_.train_metrics.empty()) return;
  const std::int64_t wanted = options_.train_metric_samples;
  const bool all = wanted <= 0 || wanted >= dataset_->size();
  const data::DatasetPtr samples = all ? dataset_ : data::slice(dataset_, 0, wanted);
  const Evaluation own = evaluate_on(*samples, options_.train_metrics, false);
  evaluation.whole = own.whole;
  for (const auto& [name, value] : own.metrics)
    evaluation.metrics.emplace_back("train_" + name, value);
}

// Workers that do not share their batches are stopped each by itself.
bool Fit::is_whole_everywhere(const Evaluation& evaluation) {
  if (options_.metrics.empty() && options_.train_metrics.empty()) return evaluation.whole;
  const std::vector<std::string> all = group().share(evaluation.whole ? "whole" : "");
  return std::find(all.begin(), all.end(), "") == all.end();
}

}  // namespace lockstep::train::detail
