// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/detail/evaluations.h"

namespace lockstep::train::detail {

EvaluationRecord record_of(const Evaluation& evaluation, std::int64_t step, std::int64_t epoch) {
  EvaluationRecord record{.step = step, .epoch = epoch, .metrics = {{"loss", evaluation.loss}}};
  if (evaluation.has_accuracy) record.metrics.emplace_back("accuracy", evaluation.accuracy);
  for (const auto& metric : evaluation.metrics) record.metrics.push_back(metric);
  return record;
}

Evaluation evaluation_of(const EvaluationRecord& record) {
  Evaluation evaluation;
  for (const auto& [name, value] : record.metrics)
    if (name == "loss")
      evaluation.loss = value;
    else if (name == "accuracy")
      evaluation.accuracy = value, evaluation.has_accuracy = true;
    else
      evaluation.metrics.emplace_back(name, value);
  return evaluation;
}

Monitor monitor_for(const FitOptions& options, const EvaluationRecord& record) {
  if (options.monitor) return *options.monitor;
  for (const auto& [name, value] : record.metrics)
    if (name == "accuracy") return {.metric = "accuracy", .maximize = true};
  return {.metric = "loss", .maximize = false};
}

// With the names that evaluations will have.
static EvaluationRecord empty_record(const FitOptions& options, bool has_accuracy) {
  Evaluation nothing;
  nothing.has_accuracy = has_accuracy;
  for (const auto& metric : options.metrics)
    for (const auto& value : metric->get_all()) nothing.metrics.push_back(value);
  for (const auto& metric : options.train_metrics)
    for (const auto& [name, value] : metric->get_all())
      nothing.metrics.emplace_back("train_" + name, value);
  return record_of(nothing, 0, 0);
}

void check_watched(const FitOptions& options, bool has_accuracy) {
  const std::optional<optim::Plateau>& plateau = options.schedule.plateau;
  if (plateau && options.validation == nullptr)
    throw InvalidArgument(
        "reduce_on_plateau: watches the {} of evaluations, and there are none: give the run a "
        "validation set (FitOptions::validation)",
        plateau->metric);
  if (options.validation == nullptr) return;
  const EvaluationRecord record = empty_record(options, has_accuracy);
  if (plateau) record.metric(plateau->metric);
  if (options.monitor) record.metric(options.monitor->metric);
}

}  // namespace lockstep::train::detail
