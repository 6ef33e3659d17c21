// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/detail/agreement.h"

#include <nlohmann/json.hpp>

#include "lockstep/base/sha256.h"

namespace lockstep::train::detail {
namespace {

using nlohmann::json;

std::string brief(Sha256& sum) { return sum.hex().substr(0, 16); }

std::string infos_text(const data::Fields& fields) {
  std::string text;
  for (const Tensor& field : fields) text += (text.empty() ? "" : ", ") + field.info().str();
  return text;
}

std::string contents_text(const data::Fields& fields) {
  Sha256 sum;
  for (const Tensor& field : fields) {
    const Tensor dense = field.to(cpu()).contiguous();
    sum.update({dense.raw(), dense.info().bytes()});
  }
  return "contents " + brief(sum);
}

// A sample that cannot be read is the loader's to complain of, or to skip.
json sample_text(const data::Dataset& set, std::int64_t index,
                 std::string (*text)(const data::Fields& fields)) {
  if (set.size() == 0) return "none";
  try {
    return text(set.sample(index));
  } catch (const Error&) {
    return "unreadable";
  }
}

void describe(json& value, const std::string& name, const data::Dataset& set) {
  value[name + "_fields"] = sample_text(set, 0, infos_text);
  value[name + "_first_sample"] = sample_text(set, 0, contents_text);
  value[name + "_last_sample"] = sample_text(set, set.size() - 1, contents_text);
}

std::string order_text(const data::SamplerPtr& sampler) {
  if (sampler == nullptr) return "random";
  const std::vector<std::int64_t> order = sampler->epoch(0);
  Sha256 sum;
  sum.update(std::as_bytes(std::span(order)));
  return fmt::format("{} samples, order {}", order.size(), brief(sum));
}

std::string parameters_text(const std::vector<nn::NamedParameter>& parameters) {
  Sha256 sum;
  for (const auto& [name, parameter] : parameters)
    sum.update(std::as_bytes(std::span(name.c_str(), name.size() + 1)));
  return fmt::format("{} parameters, names {}", parameters.size(), brief(sum));
}

std::string names_of(const std::vector<std::shared_ptr<nn::Metric>>& metrics) {
  std::string names;
  for (const auto& metric : metrics) names += (names.empty() ? "" : ", ") + metric->name();
  return names;
}

}  // namespace

std::string agreement_json(const std::string& configuration, const nn::Block& net,
                           const LossFunction& loss, const TrainerOptions& trainer,
                           const FitOptions& fit, const data::Dataset& dataset) {
  json value = json::parse(configuration);
  value["net"] = parameters_text(trained_parameters(net, loss));
  value["loss"] = loss.name();
  value["fields"] = to_string(trainer.fields);
  value["accuracy"] = trainer.accuracy;
  value["allow_different_bits"] = trainer.allow_different_bits;
  value["pipeline_schedule"] = parallel::to_string(trainer.schedule);
  value["epochs"] = fit.epochs;
  value["steps"] = fit.steps;
  value["sampler"] = order_text(fit.sampler);
  value["evaluate_every"] = fit.evaluate_every;
  value["checkpoint_every"] = fit.checkpoint_every;
  value["metrics"] = names_of(fit.metrics);
  value["train_metrics"] = names_of(fit.train_metrics);
  value["train_metric_samples"] = fit.train_metric_samples;
  describe(value, "data", dataset);
  value["validation_samples"] = fit.validation ? fit.validation->size() : 0;
  if (!fit.validation) return value.dump();
  value["validation_batch"] = fit.validation_batch;
  value["validation_transform"] = fit.validation_transform.description;
  describe(value, "validation", *fit.validation);
  return value.dump();
}

}  // namespace lockstep::train::detail
