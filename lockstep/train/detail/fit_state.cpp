// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/detail/fit_state.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "lockstep/comm/agreement.h"
#include "lockstep/observe/run_folder.h"

namespace lockstep::train::detail {
namespace {

using nlohmann::json;

// JSON has numbers alone that are finite: the others are words.
json json_of(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0.0 ? "inf" : "-inf";
  return value;
}

// Older files have null for all that is not finite.
double number(const json& value) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (value.is_null() || value == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (value == "inf") return kInfinity;
  return value == "-inf" ? -kInfinity : value.get<double>();
}

json json_of(const EvaluationRecord& record) {
  json metrics = json::array();
  for (const auto& [name, value] : record.metrics) metrics.push_back({name, json_of(value)});
  return {{"step", record.step}, {"epoch", record.epoch}, {"metrics", std::move(metrics)}};
}

EvaluationRecord record_from(const json& value) {
  EvaluationRecord record{.step = value.at("step"), .epoch = value.at("epoch"), .metrics = {}};
  for (const json& metric : value.at("metrics"))
    record.metrics.emplace_back(metric.at(0).get<std::string>(), number(metric.at(1)));
  return record;
}

json json_of(const TensorInfo& info) {
  return {{"dtype", name_of(info.dtype)}, {"shape", info.shape.vector()}};
}

TensorInfo info_from(const json& value) {
  return {Shape(value.at("shape").get<std::vector<std::int64_t>>()),
          dtype_from_name(value.at("dtype").get<std::string>()),
          {}};
}

std::string rule_of(const optim::Optimizer& optimizer) {
  const optim::CommonOptions& common = optimizer.options();
  return fmt::format("{}({}), learning_rate={}, weight_decay={}, clip_value={}, clip_norm={}",
                     optimizer.name(), optimizer.description(), common.learning_rate,
                     common.weight_decay, common.clip_value, common.clip_norm);
}

}  // namespace

std::string lines_of(std::span<const EvaluationRecord> records) {
  std::string lines;
  for (const EvaluationRecord& record : records) lines += json_of(record).dump() + "\n";
  return lines;
}

std::vector<EvaluationRecord> records_from(const std::string& lines, const std::string& place) {
  std::vector<EvaluationRecord> records;
  try {
    std::istringstream stream(lines);
    for (std::string line; std::getline(stream, line);)
      records.push_back(record_from(json::parse(line)));
    return records;
  } catch (const json::exception&) {
    throw Corrupt("{}: line {} is no evaluation", place, records.size() + 1);
  }
}

std::size_t FitState::history_before() const {
  return history.size() > kRecentEvaluations ? history.size() - kRecentEvaluations : 0;
}

std::string FitState::to_json() const {
  json records = json::array();
  for (std::size_t i = history_before(); i < history.size(); ++i)
    records.push_back(json_of(history[i]));
  json shapes = json::array();
  for (const TensorInfo& info : fields) shapes.push_back(json_of(info));
  json value{{"fields", shapes},
             {"loss_sum", json_of(loss_sum)},
             {"accuracy_sum", json_of(accuracy_sum)},
             {"last_loss", json_of(last_loss)},
             {"last_accuracy", json_of(last_accuracy)},
             {"history_before", history_before()},
             {"history", records},
             {"same_bits", same_bits},
             {"isa", isa},
             {"same_isa", same_isa}};
  if (consistent_cut) value["consistent_cut"] = true;
  return value.dump();
}

FitState FitState::from_json(const std::string& text, const std::string& place) {
  try {
    const json value = json::parse(text);
    FitState state;
    state.loss_sum = number(value.at("loss_sum"));
    state.accuracy_sum = number(value.at("accuracy_sum"));
    state.last_loss = number(value.at("last_loss"));
    state.last_accuracy = number(value.at("last_accuracy"));
    for (const json& record : value.at("history")) state.history.push_back(record_from(record));
    // Older checkpoints do not say: they have the whole history, and one shape.
    state.missing_before = value.value("history_before", std::size_t{0});
    for (const json& field : value.value("fields", json::array()))
      state.fields.push_back(info_from(field));
    state.same_bits = value.value("same_bits", true);
    state.isa = value.value("isa", "");
    state.same_isa = value.value("same_isa", true);
    state.consistent_cut = value.value("consistent_cut", false);
    return state;
  } catch (const json::exception&) {
    throw Corrupt("{}: the checkpoint has no sums and history of a training run", place);
  } catch (const InvalidArgument& error) {
    throw Corrupt("{}: the checkpoint speaks of no shapes: {}", place, error.what());
  }
}

std::string configuration_json(const TrainerOptions& trainer, const optim::Optimizer& optimizer,
                               const FitOptions& fit, std::int64_t samples) {
  json value = json::parse(fit.configuration, nullptr, false);
  if (!value.is_object()) throw InvalidArgument("train: configuration is no JSON object");
  value["global_batch"] = trainer.global_batch;
  value["shards"] = trainer.shards;
  value["seed"] = trainer.seed;
  value["compute"] = name_of(trainer.compile.compute);
  value["optimizer"] = rule_of(optimizer);
  value["schedule"] = fit.schedule.description;
  value["transform"] = fit.transform.description;
  value["samples"] = samples;
  value["sums"] = trainer.mode->description();
  if (!trainer.mesh.cuts.empty())
    value["cuts"] = trainer.mesh.cuts;
  else if (trainer.mesh.segments > 1)
    value["segments"] = trainer.mesh.segments;
  if (trainer.mesh.slices > 1) value["slices"] = trainer.mesh.slices;
  for (const Split& split : trainer.mesh.splits)
    value["splits"].push_back({split.layers, static_cast<int>(split.way)});
  return value.dump();
}

// Checkpoints from before there was a choice of sums do not tell it; nor do older ones which parts
// were frozen or had another rate.
static std::string with_newer_keys(const std::string& older, const std::string& now) {
  json defaults = json::parse(older, nullptr, false);
  if (!defaults.is_object()) return defaults.dump();
  defaults["sums"] = "canonical";
  const json today = json::parse(now, nullptr, false);
  for (const char* key : {"multipliers", "frozen"})
    if (today.is_object() && today.contains(key)) defaults[key] = today[key];
  return defaults.dump();
}

void check_configuration(const std::string& folder, const std::string& before,
                         const std::string& now, const std::string& older,
                         const std::vector<std::string>& may_differ) {
  std::vector<std::string> ignored = may_differ;
  ignored.emplace_back("version");  // of the program
  std::string differences;
  for (const auto& [key, then, today] :
       observe::compare_configs(before, now, ignored, with_newer_keys(older, now)))
    differences +=
        fmt::format("{}{} was {}, now {}", differences.empty() ? "" : "; ", key, then, today);
  if (!differences.empty())
    throw InvalidArgument("{}: is of a run with another configuration: {}", folder, differences);
}

void check_same_configuration(kvstore::Group& group, const std::string& own) {
  comm::compare_texts(
      group.share(own), [](std::size_t worker, const std::string& first, const std::string& its) {
        std::string differences;
        for (const auto& [key, here, there] : observe::compare_configs(first, its))
          differences += fmt::format("{}{} is {} on worker 0, {} on worker {}",
                                     differences.empty() ? "" : "; ", key, here, there, worker);
        if (!differences.empty()) throw InvalidArgument("configuration: {}", differences);
      });
}

}  // namespace lockstep::train::detail
