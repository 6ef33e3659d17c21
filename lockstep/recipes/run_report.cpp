// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recipes/run_report.h"

#include <fmt/core.h>

#include "lockstep/base/file.h"
#include "lockstep/data/codec.h"
#include "lockstep/nn/generate.h"
#include "lockstep/observe/report.h"
#include "lockstep/observe/text.h"
#include "lockstep/ops/shape_ops.h"
#include "lockstep/ops/softmax.h"

namespace lockstep::recipes {
namespace {

// Of wrong predictions, and of right ones.
constexpr std::size_t kPictures = 16;

// What metrics.jsonl tells, which may be long.
struct Recorded {
  observe::MetricCharts charts;
  double seconds_before = 0;  // of the last row that was kept at a resume
};

Recorded read_recorded(const observe::RunFolder& run, std::int64_t resumed_from) {
  Recorded recorded;
  observe::each_metrics_row(run.metrics_path(), [&](const observe::MetricsRow& row) {
    recorded.charts.add(row);
    if (row.step <= resumed_from) recorded.seconds_before = row.time;
  });
  return recorded;
}

// "3 workers of 2 threads"
std::string computed_by(const RunOutcome& outcome) {
  const std::string threads = observe::format_things(outcome.threads, "thread");
  return outcome.workers == 1 ? threads : fmt::format("{} workers of {}", outcome.workers, threads);
}

std::vector<observe::ReportTile> tiles(const RunOutcome& outcome, double seconds_before) {
  const train::FitResult& result = outcome.result;
  std::vector<observe::ReportTile> tiles;
  if (result.validation.has_accuracy)
    tiles.push_back({.label = "test accuracy",
                     .value = fmt::format("{:.2f}%", 100 * result.validation.accuracy),
                     .note = observe::format_things(result.validation.samples, "sample")});
  for (const auto& [name, value] : result.validation.metrics)
    tiles.push_back({.label = "test " + name,
                     .value = fmt::format("{:.4f}", value),
                     .note = observe::format_things(result.validation.samples, "sample")});
  tiles.push_back({.label = "test loss", .value = observe::format_value(result.validation.loss)});
  tiles.push_back({.label = "train loss", .value = observe::format_value(result.train_loss)});
  tiles.push_back({.label = "samples/s",
                   .value = observe::format_rate(result.samples_per_s),
                   .note = computed_by(outcome)});
  tiles.push_back({.label = "time",
                   .value = observe::format_duration(seconds_before + result.seconds),
                   .note = observe::format_things(result.steps, "step")});
  return tiles;
}

observe::ConfusionMatrix confusion(const train::Evaluation& evaluation,
                                   const std::vector<std::string>& classes) {
  const std::size_t n = classes.size();
  observe::ConfusionMatrix matrix{classes, std::vector<std::int64_t>(n * n)};
  for (std::size_t i = 0; i < evaluation.predictions.size(); ++i) {
    const auto truth = static_cast<std::size_t>(evaluation.labels[i]);
    const auto guess = static_cast<std::size_t>(evaluation.predictions[i]);
    if (truth < n && guess < n) ++matrix.counts[truth * n + guess];
  }
  return matrix;
}

// The first wrong ones, then the first right ones.
std::vector<std::int64_t> shown_samples(const train::Evaluation& evaluation) {
  std::vector<std::int64_t> wrong, right;
  for (std::size_t i = 0; i < evaluation.predictions.size(); ++i) {
    auto& list = evaluation.predictions[i] == evaluation.labels[i] ? right : wrong;
    if (list.size() < kPictures) list.push_back(static_cast<std::int64_t>(i));
  }
  wrong.insert(wrong.end(), right.begin(), right.end());
  return wrong;
}

observe::ReportPrediction look_at(const data::Fields& sample, std::size_t guess,
                                  const std::vector<std::string>& names,
                                  const data::Transform& transform, nn::Block& net) {
  const Tensor scores = softmax(net(expand_dims(transform.apply(sample[0], {}), 0)));
  return {.png = data::encode_png(sample[0]),
          .label = names.at(static_cast<std::size_t>(sample[1].item())),
          .predicted = names.at(guess),
          .confidence = scores.to_vector<float>().at(guess)};
}

std::vector<observe::ReportPrediction> predictions(const RunOutcome& outcome,
                                                   const data::Dataset& test, nn::Block& net) {
  const train::Evaluation& evaluation = outcome.result.validation;
  const data::Transform transform = outcome.recipe.test_transform();
  const std::vector<std::string> names = test.class_names();
  std::vector<observe::ReportPrediction> result;
  if (names.empty()) return result;
  for (const std::int64_t i : shown_samples(evaluation))
    result.push_back(
        look_at(test.sample(i),
                static_cast<std::size_t>(evaluation.predictions[static_cast<std::size_t>(i)]),
                names, transform, net));
  return result;
}

// What the net writes after the first words of the held-out text.
std::vector<observe::ReportSample> writing(const RunOutcome& outcome, const RecipeData& data,
                                           nn::Block& net) {
  if (!data.codec) return {};
  std::vector<std::int64_t> prompt = data.test->sample(0).front().to_vector<std::int64_t>();
  prompt.resize(prompt.size() / 2);
  const std::vector<std::int64_t> all =
      nn::generate(net, prompt, {.context = outcome.recipe.sample_shape[0], .length = 400});
  return {{.prompt = data.codec->decode(prompt),
           .text = data.codec->decode(std::span(all).subspan(prompt.size()))}};
}

}  // namespace

void write_run_report(const observe::RunFolder& run, const RunOutcome& outcome,
                      const RecipeData& data, nn::Block& net, const std::string& command) {
  const Recorded recorded = read_recorded(run, outcome.result.resumed_from);
  observe::ReportData report{.title = outcome.config.recipe,
                             .subtitle = outcome.recipe.summary,
                             .tiles = tiles(outcome, recorded.seconds_before),
                             .params_sha256 = outcome.result.params_sha256,
                             .command = command,
                             .charts = recorded.charts.charts(),
                             .config = observe::config_rows(run.read_config())};
  const std::vector<std::string> classes = data.test->class_names();
  if (!classes.empty()) report.confusion = confusion(outcome.result.validation, classes);
  if (outcome.recipe.task == Task::images)
    report.predictions = predictions(outcome, *data.test, net);
  if (outcome.recipe.task == Task::characters) report.samples = writing(outcome, data, net);
  write_file(run.report_path(), observe::render_report(report));
}

}  // namespace lockstep::recipes
