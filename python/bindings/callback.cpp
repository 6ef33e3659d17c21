// SPDX-License-Identifier: Apache-2.0
#include "bindings/arguments.h"
#include "bindings/bindings.h"
#include "bindings/block.h"
#include "bindings/train.h"
#include "lockstep/train/observers.h"

namespace lockstep::python {
namespace {

// What a callback's own collective met is as good as the step's: a run that survives goes on.
void rethrow_between_workers(const py::error_already_set& error) {
  const py::module_ errors = py::module_::import("lockstep.errors");
  if (!error.matches(errors.attr("CommError"))) return;
  const auto text = py::cast<std::string>(py::str(error.value()));
  const auto rank = py::cast<int>(error.value().attr("rank"));
  const auto host = py::cast<std::string>(error.value().attr("host"));
  const auto operation = py::cast<std::string>(error.value().attr("operation"));
  if (error.matches(errors.attr("Timeout"))) throw comm::Timeout(text, rank, host, operation);
  throw comm::Aborted(text, rank, host, operation);
}

constexpr auto kBetweenLooks = std::chrono::milliseconds(50);

// A Python object as a callback: it is told what it has methods for.
class PythonCallback final : public train::Callback {
 public:
  explicit PythonCallback(const py::object& callback)
      : callback_(callback),
        on_step_(py::hasattr(callback, "on_step_end")),
        wants_predictions_(py::hasattr(callback, "wants_predictions") &&
                           py::cast<bool>(callback.attr("wants_predictions"))) {}

  void on_train_begin(train::FitContext& context) override { tell("on_train_begin", context); }
  void on_step_end(train::FitContext& context, const train::StepEvent& event) override {
    if (on_step_) tell("on_step_end", context, event);
  }
  void on_epoch_end(train::FitContext& context, const train::EpochEvent& event) override {
    tell("on_epoch_end", context, event);
  }
  void on_evaluation(train::FitContext& context, const train::Evaluation& evaluation) override {
    tell("on_evaluation", context, evaluation);
  }
  void on_warning(train::FitContext& context, const std::string& line) override {
    tell("on_warning", context, line);
  }
  void on_train_end(train::FitContext& context, const train::FitResult& result) override {
    tell("on_train_end", context, result);
  }
  bool wants_predictions() const override { return wants_predictions_; }

 private:
  template <class... A>
  void tell(const char* method, train::FitContext& context, const A&... what) {
    const py::gil_scoped_acquire locked;
    if (!py::hasattr(callback_.get(), method)) return;
    try {
      callback_.get().attr(method)(py::cast(&context, py::return_value_policy::reference),
                                   py::cast(what)...);
    } catch (py::error_already_set& error) {
      if (SignalWatch::current() == nullptr) throw;
      if (SignalWatch::current()->survives()) rethrow_between_workers(error);
      if (!error.matches(PyExc_KeyboardInterrupt)) throw;
      SignalWatch::current()->take(error);
    }
  }

  PythonCall callback_;
  bool on_step_, wants_predictions_;
};

struct HeldCallback {
  train::CallbackPtr callback;
  bool shows_warnings = false;
};

bool has_some_method(const py::object& callback) {
  // The last is of those who have none yet: lockstep.train.Callback itself.
  for (const char* name : {"on_train_begin", "on_step_end", "on_epoch_end", "on_evaluation",
                           "on_warning", "on_train_end", "wants_predictions"})
    if (py::hasattr(callback, name)) return true;
  return false;
}

train::Monitor monitor(const std::string& metric, bool maximize, double min_delta) {
  return {metric, maximize, min_delta};
}

void bind_context(py::module_& m) {
  py::class_<train::FitContext>(m, "FitContext", "What a callback may ask of a run.")
      .def_property_readonly("step", &train::FitContext::step)
      .def_property_readonly("first_step", &train::FitContext::first_step)
      .def_property_readonly("total_steps", &train::FitContext::total_steps)
      .def_property_readonly("steps_per_epoch", &train::FitContext::steps_per_epoch)
      .def_property_readonly("global_batch", &train::FitContext::global_batch)
      .def_property_readonly("history",
                             [](const train::FitContext& self) {
                               return std::vector<train::EvaluationRecord>(self.history());
                             })
      .def_property_readonly(
          "net", [](train::FitContext& self) { return &self.net(); },
          py::return_value_policy::reference)
      .def("request_stop", &train::FitContext::request_stop, py::arg("reason"))
      .def("warn", &train::FitContext::warn, py::arg("line"));
  py::class_<train::StepEvent>(m, "StepEvent")
      .def_readonly("step", &train::StepEvent::step)
      .def_readonly("epoch", &train::StepEvent::epoch)
      .def_readonly("loss", &train::StepEvent::loss)
      .def_readonly("accuracy", &train::StepEvent::accuracy)
      .def_readonly("learning_rate", &train::StepEvent::learning_rate)
      .def_readonly("samples_per_s", &train::StepEvent::samples_per_s)
      .def_readonly("seconds", &train::StepEvent::seconds);
  py::class_<train::EpochEvent>(m, "EpochEvent")
      .def_readonly("step", &train::EpochEvent::step)
      .def_readonly("epoch", &train::EpochEvent::epoch)
      .def_readonly("loss", &train::EpochEvent::loss)
      .def_readonly("accuracy", &train::EpochEvent::accuracy);
}

}  // namespace

SignalWatch*& SignalWatch::current() {
  thread_local SignalWatch* watch = nullptr;
  return watch;
}

void SignalWatch::take(const py::error_already_set& raised) {
  if (raised_ == nullptr) raised_ = std::make_unique<py::error_already_set>(raised);
  stop_ = true;
}

void SignalWatch::look() {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return;
  next_ = now + kBetweenLooks;
  const py::gil_scoped_acquire locked;
  if (raised_ != nullptr || PyErr_CheckSignals() == 0) return;
  raised_ = std::make_unique<py::error_already_set>();
  stop_ = true;
}

void SignalWatch::rethrow() {
  if (raised_ == nullptr) return;
  const std::unique_ptr<py::error_already_set> raised = std::move(raised_);
  throw py::error_already_set(*raised);
}

train::CallbackPtr to_callback(const py::object& callback) {
  if (py::isinstance<HeldCallback>(callback)) return py::cast<HeldCallback&>(callback).callback;
  if (py::isinstance<py::type>(callback) || !has_some_method(callback))
    refuse("fit: callbacks",
           "a list of objects with methods of lockstep.train.Callback, such as "
           "[lockstep.train.on_step(function)]",
           callback);
  return std::make_shared<PythonCallback>(callback);
}

bool shows_warnings(const py::object& callback) {
  if (py::isinstance<HeldCallback>(callback))
    return py::cast<HeldCallback&>(callback).shows_warnings;
  return py::hasattr(callback, "on_warning");
}

void bind_callbacks(py::module_& m) {
  bind_context(m);
  py::class_<HeldCallback>(m, "EngineCallback");
  m.def(
      "early_stopping",
      [](const std::string& metric, bool maximize, double min_delta, int patience) {
        return HeldCallback{train::early_stopping(monitor(metric, maximize, min_delta), patience)};
      },
      py::arg("metric") = "accuracy", py::arg("maximize") = true, py::arg("min_delta") = 0.0,
      py::arg("patience") = 3, "Stops when a metric has not become better for a while.");
  m.def(
      "best_model",
      [](const FilePath& path, const std::string& metric, bool maximize) {
        return HeldCallback{train::best_model(path.text, monitor(metric, maximize, 0.0))};
      },
      py::arg("path"), py::arg("metric") = "accuracy", py::arg("maximize") = true,
      "Saves the parameters whenever a metric is the best so far.");
  m.def(
      "record_metrics",
      [](const FilePath& folder) {
        return HeldCallback{train::record_metrics(observe::RunFolder::create(folder.text))};
      },
      py::arg("folder"), "Every step and evaluation in a new run folder: metrics.jsonl, events/.");
  m.def(
      "show_progress",
      [] {
        return HeldCallback{train::show_progress(), true};
      },
      "A bar an epoch on a terminal, plain lines elsewhere.");
  m.def(
      "print_warnings",
      [] {
        return HeldCallback{train::print_warnings(), true};
      },
      "The first worker's warnings on standard error, a line each: what fit does where no callback "
      "shows them.");
}

}  // namespace lockstep::python
