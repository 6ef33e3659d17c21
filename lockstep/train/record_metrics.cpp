// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <utility>

#include "lockstep/data/codec.h"
#include "lockstep/observe/event_file.h"
#include "lockstep/observe/metrics_log.h"
#include "lockstep/train/observers.h"
#include "lockstep/train/trainer.h"

namespace lockstep::train {
namespace {

// TensorBoard draws no more points than this anyway.
constexpr std::int64_t kEventPoints = 1000;
constexpr std::int64_t kHistograms = 200;  // of a parameter, in a run
constexpr std::int64_t kPictures = 4;
constexpr std::string_view kOfTraining = "train_";  // FitOptions::train_metrics

// An image of bytes, [H, W] or [H, W, C], as a data set has it before any transform.
bool is_picture(const Tensor& field) {
  const int rank = field.rank();
  return field.dtype() == DType::uint8 && (rank == 2 || (rank == 3 && field.shape(2) <= 4));
}

class Recorder final : public Callback {
 public:
  explicit Recorder(const observe::RunFolder& run)
      : metrics_path_(run.metrics_path()), events_path_(run.events_path()) {}

  void on_train_begin(FitContext& run) override {
    const std::int64_t first = run.step();
    is_takeover_ = first > run.first_step();
    if (is_takeover_) find_last_row();
    log_.emplace(first == 0 ? observe::MetricsLog::create(metrics_path_)
                            : observe::MetricsLog::resume(
                                  metrics_path_, first,
                                  [&run](const std::string& line) { run.warn(line); }));
    events_.emplace(events_path_, first + 1);
    seconds_ = log_->time_before();
    every_ = std::max<std::int64_t>(1, run.total_steps() / kEventPoints);
    if (first == 0) guard(run, [&] { write_pictures(run.train_set()); });
  }

  void on_step_end(FitContext& run, const StepEvent& event) override {
    if (std::exchange(is_takeover_, false)) before_ = event.seconds;
    if (event.step <= last_row_) return;
    seconds_ = log_->time_before() + event.seconds - before_;
    guard(run, [&] { write_step(run, event); });
  }

  void on_epoch_end(FitContext& run, const EpochEvent& event) override {
    const std::int64_t epochs = run.total_steps() / run.steps_per_epoch();
    const std::int64_t every = (epochs + kHistograms - 1) / kHistograms;
    if (every > 1 && (event.epoch + 1) % every != 0 && event.epoch + 1 != epochs) return;
    guard(run, [&] { write_histograms(run.net(), event.step); });
  }

  void on_evaluation(FitContext& run, const Evaluation& evaluation) override {
    guard(run, [&] { write_evaluation(run, evaluation); });
  }

 private:
  // Another worker has written so far.
  void find_last_row() {
    try {
      observe::each_metrics_row(metrics_path_, [&](const observe::MetricsRow& row) {
        last_row_ = std::max(last_row_, row.step);
      });
    } catch (const Error&) {
      // There is nothing to read: the row is written again.
    }
  }

  // A full disk ends the record, not the training: told once.
  template <class Write>
  void guard(FitContext& run, const Write& write) {
    if (failed_) return;
    try {
      write();
    } catch (const IoError& error) {
      failed_ = true;
      run.warn(fmt::format("{}; metrics are not recorded any more", error.what()));
    }
  }

  void write_step(FitContext& run, const StepEvent& event) {
    observe::MetricsRow row{.step = event.step,
                            .epoch = event.epoch + 1,
                            .time = seconds_,
                            .values = {{"loss", event.loss}}};
    if (event.has_accuracy) row.values.emplace_back("accuracy", event.accuracy);
    row.values.emplace_back("learning_rate", event.learning_rate);
    row.values.emplace_back("samples_per_s", event.samples_per_s);
    if (event.staleness) row.values.emplace_back("staleness", *event.staleness);
    if (event.steps_ahead)
      row.values.emplace_back("steps_ahead", static_cast<double>(*event.steps_ahead));
    if (event.cost) add_cost(*event.cost, row);
    log_->append(row);
    if (event.step % every_ != 0 && event.step != run.total_steps()) return;
    events_->scalar("loss/train", event.step, event.loss);
    if (event.has_accuracy) events_->scalar("accuracy/train", event.step, event.accuracy);
    events_->scalar("learning_rate", event.step, event.learning_rate);
    events_->scalar("samples_per_s", event.step, event.samples_per_s);
    if (event.staleness) events_->scalar("staleness", event.step, *event.staleness);
  }

  static void add_cost(const StepCost& cost, observe::MetricsRow& row) {
    row.values.emplace_back("compute_s", cost.compute_s);
    row.values.emplace_back("wait_s", cost.wait_s);
    row.values.emplace_back("bytes_sent", static_cast<double>(cost.bytes_sent));
    row.values.emplace_back("slowest_rank", cost.slowest_rank);
    row.values.emplace_back("slowest_s", cost.slowest_s);
  }

  void write_evaluation(FitContext& run, const Evaluation& evaluation) {
    observe::MetricsRow row{.step = run.step(),
                            .epoch = run.history().back().epoch,
                            .time = seconds_,
                            .values = {{"val_loss", evaluation.loss}}};
    events_->scalar("loss/val", run.step(), evaluation.loss);
    if (evaluation.has_accuracy) {
      row.values.emplace_back("val_accuracy", evaluation.accuracy);
      events_->scalar("accuracy/val", run.step(), evaluation.accuracy);
    }
    for (const auto& [name, value] : evaluation.metrics) {
      const bool of_training = name.starts_with(kOfTraining);
      const std::string base = of_training ? name.substr(kOfTraining.size()) : name;
      row.values.emplace_back(of_training ? name : "val_" + name, value);
      events_->scalar(base + (of_training ? "/train_set" : "/val"), run.step(), value);
    }
    log_->append(row);
  }

  void write_histograms(const nn::Block& net, std::int64_t step) {
    for (const auto& [name, parameter] : net.parameters())
      events_->histogram("parameters/" + name, step, parameter.data().to_vector<float>());
  }

  void write_pictures(const data::Dataset& dataset) {
    const std::int64_t count = std::min(kPictures, dataset.size());
    for (std::int64_t i = 0; i < count; ++i) write_picture(dataset, i);
  }

  void write_picture(const data::Dataset& dataset, std::int64_t number) {
    Tensor picture;
    try {
      picture = dataset.sample(number).front();
    } catch (const Corrupt&) {
      return;  // the loader reports it
    }
    if (!is_picture(picture)) return;
    const std::string png = data::encode_png(picture);
    events_->image(fmt::format("samples/{}", number), 0,
                   {.width = static_cast<int>(picture.shape(1)),
                    .height = static_cast<int>(picture.shape(0)),
                    .channels = picture.rank() == 2 ? 1 : static_cast<int>(picture.shape(2)),
                    .png = png});
  }

  std::string metrics_path_, events_path_;
  std::optional<observe::MetricsLog> log_;
  std::optional<observe::EventWriter> events_;
  std::int64_t every_ = 1;
  double seconds_ = 0;
  bool is_takeover_ = false;    // until the first step after it
  double before_ = 0;           // seconds of training that the log knows already
  std::int64_t last_row_ = -1;  // of the worker before this one
  bool failed_ = false;
};

}  // namespace

CallbackPtr record_metrics(const observe::RunFolder& run) {
  return std::make_shared<Recorder>(run);
}

}  // namespace lockstep::train
