// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>

#include "lockstep/observe/text.h"
#include "lockstep/train/observers.h"
#include "lockstep/train/trainer.h"

namespace lockstep::train {
namespace {

std::int64_t epochs_of(const FitContext& run) {
  return (run.total_steps() + run.steps_per_epoch() - 1) / run.steps_per_epoch();
}

class ProgressCallback final : public Callback {
 public:
  explicit ProgressCallback(observe::ProgressTarget target) : progress_(std::move(target)) {}

  void on_step_end(FitContext& run, const StepEvent& event) override {
    if (event.epoch != epoch_) begin(run, event);
    progress_.update(event.step - epoch_ * run.steps_per_epoch(), figures(event));
    // A run of so many steps may end within an epoch, which then has no end of its own.
    if (event.step == run.total_steps() && event.step % run.steps_per_epoch() != 0)
      progress_.finish();
  }

  void on_epoch_end(FitContext&, const EpochEvent& event) override {
    progress_.finish(figures(event));
  }

  void on_evaluation(FitContext& run, const Evaluation& evaluation) override {
    std::string line = fmt::format("step {}: test loss {}", observe::format_count(run.step()),
                                   observe::format_value(evaluation.loss));
    if (evaluation.has_accuracy) line += fmt::format(", accuracy {:.4f}", evaluation.accuracy);
    for (const auto& [name, value] : evaluation.metrics)
      line += fmt::format(", {} {:.4f}", name, value);
    progress_.message(line);
  }

  void on_warning(FitContext&, const std::string& line) override {
    progress_.message("warning: " + line);
  }

 private:
  template <class Event>
  static std::vector<observe::Measure> figures(const Event& event) {
    if (!event.has_accuracy) return {{"loss", event.loss}};
    return {{"loss", event.loss}, {"accuracy", event.accuracy}};
  }

  void begin(FitContext& run, const StepEvent& event) {
    epoch_ = event.epoch;
    const std::int64_t start = epoch_ * run.steps_per_epoch();
    const std::int64_t steps = std::min(run.steps_per_epoch(), run.total_steps() - start);
    progress_.begin({.label = fmt::format("epoch {}/{}", epoch_ + 1, epochs_of(run)),
                     .total = steps,
                     .first = event.step - 1 - start,
                     .samples_per_step = run.global_batch()});
  }

  observe::Progress progress_;
  std::int64_t epoch_ = -1;
};

}  // namespace

CallbackPtr show_progress(observe::ProgressTarget target) {
  return std::make_shared<ProgressCallback>(std::move(target));
}

}  // namespace lockstep::train
