// SPDX-License-Identifier: Apache-2.0
#include "bindings/optim.h"

#include "bindings/bindings.h"
#include "bindings/block.h"
#include "lockstep/optim/optimizers.h"
#include "lockstep/optim/updater.h"

namespace lockstep::python {
namespace {

optim::WarmUp warm_up(std::int64_t steps, double from, bool constant) {
  return {steps, from, constant};
}

std::vector<nn::NamedParameter> parameters_of(const py::object& given) {
  std::vector<nn::NamedParameter> list;
  const py::object all =
      py::isinstance<nn::Block>(given) ? py::object(given.attr("parameters")()) : given;
  if (py::isinstance<py::dict>(all)) {
    for (const auto& [name, parameter] : py::dict(all))
      list.push_back({py::cast<std::string>(name), py::cast<nn::Parameter>(parameter)});
    return list;
  }
  for (const py::handle& item : all) {
    auto parameter = py::cast<nn::Parameter>(item);
    list.push_back(
        {parameter.name().empty() ? std::to_string(list.size()) : parameter.name(), parameter});
  }
  return list;
}

void bind_schedules(py::module_& m) {
  py::class_<optim::WarmUp>(m, "WarmUp")
      .def(py::init(&warm_up), py::arg("steps"), py::arg("from_rate") = 0.0,
           py::arg("constant") = false);
  py::class_<optim::Schedule>(m, "Schedule", "The learning rate of a step, counted from 0.")
      .def("__call__",
           [](const optim::Schedule& self, std::int64_t step) { return self.rate(step); })
      .def("__repr__", [](const optim::Schedule& self) { return self.description; });
  const optim::WarmUp none;
  m.def("constant", &optim::constant, py::arg("rate"), py::arg("warm_up") = none);
  m.def("factor", &optim::factor, py::arg("rate"), py::arg("every"), py::arg("factor"),
        py::arg("stop") = 1e-8, py::arg("warm_up") = none);
  m.def("multi_factor", &optim::multi_factor, py::arg("rate"), py::arg("steps"), py::arg("factor"),
        py::arg("warm_up") = none);
  m.def("polynomial", &optim::polynomial, py::arg("rate"), py::arg("steps"), py::arg("power") = 2.0,
        py::arg("final_rate") = 0.0, py::arg("warm_up") = none);
  m.def("cosine", &optim::cosine, py::arg("rate"), py::arg("steps"), py::arg("final_rate") = 0.0,
        py::arg("warm_up") = none);
  m.def(
      "reduce_on_plateau",
      [](const std::string& metric, bool maximize, double factor, int patience, double min_delta,
         int cooldown, double min_rate, const py::object& base) {
        return optim::reduce_on_plateau(
            {metric, maximize, factor, patience, min_delta, cooldown, min_rate}, to_schedule(base));
      },
      py::arg("metric") = "loss", py::arg("maximize") = false, py::arg("factor") = 0.1,
      py::arg("patience") = 10, py::arg("min_delta") = 0.0, py::arg("cooldown") = 0,
      py::arg("min_rate") = 0.0, py::arg("base") = py::none());
}

void bind_updater(py::module_& m) {
  py::class_<optim::Updater>(m, "Updater",
                             "Applies a rule to parameters after backward: for loops by hand.")
      .def(py::init([](const py::object& parameters, const std::shared_ptr<optim::Optimizer>& rule,
                       const py::object& schedule, bool ignore_missing_gradients) {
             std::optional<optim::Schedule> rates;
             if (!schedule.is_none()) rates = to_schedule(schedule);
             return std::make_unique<optim::Updater>(
                 parameters_of(parameters), rule, rates,
                 optim::UpdaterOptions{ignore_missing_gradients});
           }),
           py::arg("parameters"), py::arg("rule"), py::arg("schedule") = py::none(),
           py::arg("ignore_missing_gradients") = false)
      .def("step", &optim::Updater::step, py::arg("batch_size") = 1,
           "One update, with gradients divided by the batch's size.",
           py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("steps", &optim::Updater::steps)
      .def_property("learning_rate", &optim::Updater::learning_rate,
                    &optim::Updater::set_learning_rate)
      .def(
          "save", [](const optim::Updater& self, const FilePath& path) { self.save(path.text); },
          py::arg("path"))
      .def(
          "load", [](optim::Updater& self, const FilePath& path) { self.load(path.text); },
          py::arg("path"));
}

}  // namespace

optim::Schedule to_schedule(const py::object& schedule) {
  if (schedule.is_none()) return {};
  if (py::isinstance<optim::Schedule>(schedule)) return py::cast<optim::Schedule>(schedule);
  if (PyCallable_Check(schedule.ptr()) == 0)
    throw py::type_error("schedule: expected one of lockstep.optim, or a function of the step");
  std::string name = "custom";
  if (py::hasattr(schedule, "__name__")) name = py::cast<std::string>(schedule.attr("__name__"));
  return {name, [call = PythonCall(schedule), name](std::int64_t step) {
            const py::gil_scoped_acquire locked;
            const py::object rate = call.get()(step);
            const double number = PyFloat_AsDouble(rate.ptr());
            if (PyErr_Occurred() == nullptr) return number;
            PyErr_Clear();
            throw InvalidArgument("schedule {}: gave {} for step {}, expected a number", name,
                                  py::cast<std::string>(py::repr(rate)), step);
          }};
}

void bind_optim(py::module_& core) {
  py::module_ m = core.def_submodule("optim", "Update rules and schedules.");
  py::class_<optim::Optimizer, std::shared_ptr<optim::Optimizer>>(m, "Optimizer", "An update rule.")
      .def_property_readonly("name",
                             [](const optim::Optimizer& self) { return std::string(self.name()); })
      .def_property_readonly(
          "learning_rate",
          [](const optim::Optimizer& self) { return self.options().learning_rate; })
      .def("__repr__", [](const optim::Optimizer& self) {
        return fmt::format("{}({})", self.name(), self.description());
      });
  m.def("make_optimizer", [](const std::string& name, const std::map<std::string, double>& values) {
    return std::const_pointer_cast<optim::Optimizer>(optim::make_optimizer(name, values));
  });
  m.def("optimizer_names", &optim::optimizer_names);
  bind_schedules(m);
  bind_updater(m);
}

}  // namespace lockstep::python
