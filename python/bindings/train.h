// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bindings/casters.h"
#include "lockstep/train/join_job.h"
#include "lockstep/train/trainer.h"

namespace lockstep::python {

// An object with some of Callback's methods.
train::CallbackPtr to_callback(const py::object& callback);
// Whether somebody sees there what a run warns of.
bool shows_warnings(const py::object& callback);
void bind_callbacks(py::module_& m);
void bind_results(py::module_& m);

// The job that this process is in. It outlives the trainers and stores that were made of it.
struct HeldJob {
  train::OwnJob own;
};

void bind_collectives(py::class_<HeldJob>& job);

// Looks for Ctrl-C between steps: the run is asked to stop, and what Python's handler raised comes
// out of fit() after the last checkpoint is written.
class SignalWatch final : public train::Callback {
 public:
  explicit SignalWatch(bool survives) : survives_(survives) {}
  bool survives() const { return survives_; }  // the loss of workers
  void on_step_end(train::FitContext&, const train::StepEvent&) override { look(); }
  void on_evaluation(train::FitContext&, const train::Evaluation&) override { look(); }

  const std::atomic<bool>* stop() const { return &stop_; }
  // Of the fit that this thread runs; null where none does.
  static SignalWatch*& current();
  // What a handler has raised inside of a callback, which is asked again and again: the run stops.
  void take(const py::error_already_set& raised);
  // Throws what a handler has raised. The caller holds the GIL.
  void rethrow();

 private:
  void look();
  bool survives_;
  std::atomic<bool> stop_ = false;
  std::unique_ptr<py::error_already_set> raised_;
  std::chrono::steady_clock::time_point next_ = {};
};

}  // namespace lockstep::python
