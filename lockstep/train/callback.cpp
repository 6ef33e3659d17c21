// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/callback.h"

#include <cmath>

namespace lockstep::train {

double EvaluationRecord::metric(const std::string& name) const {
  for (const auto& [own, value] : metrics)
    if (own == name) return value;
  std::string names;
  for (const auto& [own, value] : metrics) names += (names.empty() ? "" : ", ") + own;
  throw NotFound("train: evaluation has no metric named '{}', it has {}", name, names);
}

namespace {

// The place in the history of the best value; a NaN is never one.
std::optional<std::size_t> best_of(const std::vector<EvaluationRecord>& history,
                                   const Monitor& monitor) {
  std::optional<std::size_t> best;
  double best_value = 0.0;
  for (std::size_t i = 0; i < history.size(); ++i) {
    const double value = history[i].metric(monitor.metric);
    if (std::isnan(value) || (best && !monitor.is_better(value, best_value))) continue;
    best = i;
    best_value = value;
  }
  return best;
}

void check_validates(const char* who, const FitContext& context, const Monitor& monitor) {
  if (context.validation_set() == nullptr)
    throw InvalidArgument(
        "{}: watches the {} of evaluations, and there are none: give the run a validation set "
        "(FitOptions::validation)",
        who, monitor.metric);
}

class EarlyStopping final : public Callback {
 public:
  EarlyStopping(Monitor monitor, int patience) : monitor_(std::move(monitor)), patience_(patience) {
    if (patience < 1)
      throw InvalidArgument("early_stopping: patience is {}, expected 1 or more", patience);
  }
  // A run that was stopped by this stays stopped when it is resumed.
  void on_train_begin(FitContext& context) override {
    check_validates("early_stopping", context, monitor_);
    check(context);
  }
  void on_evaluation(FitContext& context, const Evaluation&) override { check(context); }

 private:
  void check(FitContext& context) const {
    const auto& history = context.history();
    const auto best = best_of(history, monitor_);
    const std::size_t waited = best ? history.size() - 1 - *best : history.size();
    if (waited < static_cast<std::size_t>(patience_)) return;
    context.request_stop(
        fmt::format("{} has not become better in {} evaluations", monitor_.metric, waited));
  }

  Monitor monitor_;
  int patience_;
};

class BestModel final : public Callback {
 public:
  BestModel(std::string path, Monitor monitor)
      : path_(std::move(path)), monitor_(std::move(monitor)) {}
  void on_train_begin(FitContext& context) override {
    check_validates("best_model", context, monitor_);
  }
  void on_evaluation(FitContext& context, const Evaluation&) override {
    const auto best = best_of(context.history(), monitor_);
    if (best && *best + 1 == context.history().size()) context.net().save(path_);
  }

 private:
  std::string path_;
  Monitor monitor_;
};

template <class Event>
using Function = std::function<void(FitContext&, const Event&)>;

class OnStep final : public Callback {
 public:
  explicit OnStep(Function<StepEvent> function) : function_(std::move(function)) {}
  void on_step_end(FitContext& context, const StepEvent& event) override {
    function_(context, event);
  }

 private:
  Function<StepEvent> function_;
};

class OnEpoch final : public Callback {
 public:
  explicit OnEpoch(Function<EpochEvent> function) : function_(std::move(function)) {}
  void on_epoch_end(FitContext& context, const EpochEvent& event) override {
    function_(context, event);
  }

 private:
  Function<EpochEvent> function_;
};

class OnEvaluation final : public Callback {
 public:
  explicit OnEvaluation(Function<Evaluation> function) : function_(std::move(function)) {}
  void on_evaluation(FitContext& context, const Evaluation& evaluation) override {
    function_(context, evaluation);
  }

 private:
  Function<Evaluation> function_;
};

}  // namespace

CallbackPtr early_stopping(const Monitor& monitor, int patience) {
  return std::make_shared<EarlyStopping>(monitor, patience);
}

CallbackPtr best_model(const std::string& path, const Monitor& monitor) {
  return std::make_shared<BestModel>(path, monitor);
}

CallbackPtr on_step(std::function<void(FitContext&, const StepEvent&)> function) {
  return std::make_shared<OnStep>(std::move(function));
}

CallbackPtr on_epoch(std::function<void(FitContext&, const EpochEvent&)> function) {
  return std::make_shared<OnEpoch>(std::move(function));
}

CallbackPtr on_evaluation(std::function<void(FitContext&, const Evaluation&)> function) {
  return std::make_shared<OnEvaluation>(std::move(function));
}

}  // namespace lockstep::train
