// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include "lockstep/observe/event_file.h"
#include "lockstep/observe/metrics_log.h"
#include "lockstep/train/observers.h"
#include "lockstep/train/trainer.h"

namespace lockstep::train {
namespace {

// TensorBoard draws no more points than this anyway.
constexpr std::int64_t kEventPoints = 1000;

class Recorder final : public Callback {
 public:
  explicit Recorder(const observe::RunFolder& run)
      : metrics_path_(run.metrics_path()), events_path_(run.events_path()) {}

  void on_train_begin(FitContext& run) override {
    const std::int64_t first = run.first_step();
    log_.emplace(first == 0 ? observe::MetricsLog::create(metrics_path_)
                            : observe::MetricsLog::resume(metrics_path_, first));
    events_.emplace(events_path_, first + 1);
    every_ = std::max<std::int64_t>(1, run.total_steps() / kEventPoints);
  }

  void on_step_end(FitContext& run, const StepEvent& event) override {
    seconds_ = event.seconds;
    log_->append({.step = event.step,
                  .epoch = event.epoch + 1,
                  .time = event.seconds,
                  .values = {{"loss", event.loss},
                             {"accuracy", event.accuracy},
                             {"learning_rate", event.learning_rate},
                             {"samples_per_s", event.samples_per_s}}});
    if (event.step % every_ != 0 && event.step != run.total_steps()) return;
    events_->scalar("loss/train", event.step, event.loss);
    events_->scalar("accuracy/train", event.step, event.accuracy);
    events_->scalar("learning_rate", event.step, event.learning_rate);
    events_->scalar("samples_per_s", event.step, event.samples_per_s);
  }

  void on_evaluation(FitContext& run, const Evaluation& evaluation) override {
    observe::MetricsRow row{.step = run.step(),
                            .epoch = run.step() / run.steps_per_epoch(),
                            .time = seconds_,
                            .values = {{"val_loss", evaluation.loss}}};
    events_->scalar("loss/val", run.step(), evaluation.loss);
    if (evaluation.has_accuracy) {
      row.values.emplace_back("val_accuracy", evaluation.accuracy);
      events_->scalar("accuracy/val", run.step(), evaluation.accuracy);
    }
    log_->append(row);
  }

 private:
  std::string metrics_path_, events_path_;
  std::optional<observe::MetricsLog> log_;
  std::optional<observe::EventWriter> events_;
  std::int64_t every_ = 1;
  double seconds_ = 0;
};

}  // namespace

CallbackPtr record_metrics(const observe::RunFolder& run) {
  return std::make_shared<Recorder>(run);
}

}  // namespace lockstep::train
