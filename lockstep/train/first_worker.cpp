// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <utility>

#include "lockstep/train/callback.h"

namespace lockstep::train {
namespace {

class OnFirstWorker final : public Callback {
 public:
  explicit OnFirstWorker(std::function<CallbackPtr()> make) : make_(std::move(make)) {}

  void on_train_begin(FitContext& run) override { find(run); }
  void on_step_end(FitContext& run, const StepEvent& event) override {
    if (Callback* own = find(run)) own->on_step_end(run, event);
    last_ = event;
  }
  void on_epoch_end(FitContext& run, const EpochEvent& event) override {
    if (Callback* own = find(run)) own->on_epoch_end(run, event);
  }
  void on_evaluation(FitContext& run, const Evaluation& evaluation) override {
    if (Callback* own = find(run)) own->on_evaluation(run, evaluation);
  }
  void on_warning(FitContext& run, const std::string& line) override {
    if (own_ || run.is_first()) made().on_warning(run, line);
  }
  void on_deal(FitContext& run) override {
    if (Callback* own = find(run)) own->on_deal(run);
  }
  void on_generation(FitContext& run) override {
    if (Callback* own = find(run)) own->on_generation(run);
  }
  void on_train_end(FitContext& run, const FitResult& result) override {
    if (Callback* own = find(run)) own->on_train_end(run, result);
  }

 private:
  // The worker before it may have ended between a step and its record.
  Callback* find(FitContext& run) {
    if (!run.is_first()) return nullptr;
    if (has_begun_) return own_.get();
    has_begun_ = true;
    made().on_train_begin(run);
    if (last_ && last_->step == run.step()) own_->on_step_end(run, *last_);
    return own_.get();
  }

  // There are warnings before a run begins.
  Callback& made() {
    if (!own_) own_ = make_();
    return *own_;
  }

  std::function<CallbackPtr()> make_;
  CallbackPtr own_;
  bool has_begun_ = false;
  std::optional<StepEvent> last_;
};

}  // namespace

CallbackPtr on_first_worker(std::function<CallbackPtr()> make) {
  return std::make_shared<OnFirstWorker>(std::move(make));
}

}  // namespace lockstep::train
