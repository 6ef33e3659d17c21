// SPDX-License-Identifier: Apache-2.0
#include "bindings/bindings.h"
#include "bindings/train.h"

namespace lockstep::python {

void bind_results(py::module_& m) {
  py::class_<train::Evaluation>(m, "Evaluation", "What a net was worth on a data set.")
      .def_readonly("loss", &train::Evaluation::loss)
      .def_property_readonly("accuracy",
                             [](const train::Evaluation& self) -> py::object {
                               if (!self.has_accuracy) return py::none();
                               return py::float_(self.accuracy);
                             })
      .def_readonly("samples", &train::Evaluation::samples)
      .def_readonly("whole", &train::Evaluation::whole)
      .def_property_readonly(
          "metrics", [](const train::Evaluation& self) { return py::dict(py::cast(self.metrics)); })
      .def_readonly("predictions", &train::Evaluation::predictions)
      .def_readonly("labels", &train::Evaluation::labels)
      .def("__repr__", [](const train::Evaluation& self) {
        std::string text = fmt::format("{} samples, loss {:.4f}", self.samples, self.loss);
        if (self.has_accuracy) text += fmt::format(", accuracy {:.4f}", self.accuracy);
        for (const auto& [name, value] : self.metrics)
          text += fmt::format(", {} {:.4f}", name, value);
        return text;
      });
  py::class_<train::EvaluationRecord>(m, "EvaluationRecord")
      .def_readonly("step", &train::EvaluationRecord::step)
      .def_readonly("epoch", &train::EvaluationRecord::epoch)
      .def_property_readonly("metrics", [](const train::EvaluationRecord& self) {
        return py::dict(py::cast(self.metrics));
      });
  using Result = train::FitResult;
  py::class_<Result>(m, "FitResult", "What came out of a run.")
      .def_readonly("steps", &Result::steps)
      .def_readonly("resumed_from", &Result::resumed_from)
      .def_readonly("epochs", &Result::epochs)
      .def_readonly("stopped", &Result::stopped)
      .def_readonly("stop_reason", &Result::stop_reason)
      .def_readonly("is_first", &Result::is_first)
      .def_readonly("is_dismissed", &Result::is_dismissed)
      .def_readonly("train_loss", &Result::train_loss)
      .def_readonly("train_accuracy", &Result::train_accuracy)
      .def_property_readonly("validation",
                             [](const Result& self) -> py::object {
                               if (self.history.empty()) return py::none();
                               return py::cast(self.validation);
                             })
      .def_readonly("history", &Result::history)
      .def_readonly("seconds", &Result::seconds)
      .def_readonly("samples_per_s", &Result::samples_per_s)
      .def_readonly("params_sha256", &Result::params_sha256)
      .def_readonly("same_bits", &Result::same_bits)
      .def_readonly("isa", &Result::isa)
      .def_readonly("checkpoint", &Result::checkpoint)
      .def_readonly("warnings", &Result::warnings)
      .def("__repr__", [](const Result& self) {
        return fmt::format("{} steps, train loss {:.4f}, params_sha256 {}", self.steps,
                           self.train_loss, self.params_sha256);
      });
}

}  // namespace lockstep::python
