// SPDX-License-Identifier: Apache-2.0
#include "bindings/metric.h"

#include "bindings/arguments.h"
#include "bindings/bindings.h"
#include "bindings/block.h"

namespace lockstep::python {
namespace {

std::string name_of_metric(const py::object& metric) {
  if (py::hasattr(metric, "name")) {
    const py::object name = metric.attr("name");
    if (py::isinstance<py::str>(name)) return py::cast<std::string>(name);
  }
  return py::cast<std::string>(py::type::handle_of(metric).attr("__name__"));
}

// One that Python wrote.
class PythonMetric final : public nn::Metric {
 public:
  explicit PythonMetric(const py::object& metric)
      : nn::Metric(name_of_metric(metric)), metric_(metric) {}
  void update(const Tensor& label, const Tensor& prediction) override {
    const py::gil_scoped_acquire locked;
    metric_.get().attr("update")(label, prediction);
  }
  void reset() override {
    const py::gil_scoped_acquire locked;
    metric_.get().attr("reset")();
  }
  // A number, or (name, number).
  Value get() const override {
    const py::gil_scoped_acquire locked;
    const py::object value = metric_.get().attr("get")();
    if (py::isinstance<py::tuple>(value)) return py::cast<Value>(value);
    return {name(), py::cast<double>(value)};
  }

 private:
  PythonCall metric_;
};

}  // namespace

std::shared_ptr<nn::Metric> to_metric(const py::object& metric) {
  if (py::isinstance<py::str>(metric)) return nn::metric(py::cast<std::string>(metric));
  if (py::isinstance<nn::Metric>(metric)) return py::cast<std::shared_ptr<nn::Metric>>(metric);
  for (const char* method : {"update", "reset", "get"})
    if (!py::hasattr(metric, method))
      throw py::type_error("metric: " + py::cast<std::string>(py::repr(metric)) +
                           " has no method " + method);
  return std::make_shared<PythonMetric>(metric);
}

std::vector<std::shared_ptr<nn::Metric>> to_metrics(const py::object& metrics) {
  std::vector<std::shared_ptr<nn::Metric>> list;
  if (metrics.is_none()) return list;
  if (py::isinstance<py::str>(metrics) || !py::isinstance<py::iterable>(metrics))
    refuse("metrics", "a list, such as ['accuracy']", metrics);
  for (const py::handle& metric : metrics)
    list.push_back(to_metric(py::reinterpret_borrow<py::object>(metric)));
  return list;
}

void bind_metric(py::module_& core) {
  py::module_ m = core.def_submodule("metrics", "Figures of merit.");
  py::class_<nn::Metric, std::shared_ptr<nn::Metric>>(m, "Metric")
      .def_property_readonly("name", &nn::Metric::name)
      .def("update", &nn::Metric::update, py::arg("label"), py::arg("prediction"),
           py::call_guard<py::gil_scoped_release>())
      .def("reset", &nn::Metric::reset)
      .def("get", &nn::Metric::get, "(name, value); NaN while there is none.")
      .def("get_all", &nn::Metric::get_all)
      .def("__repr__", [](const nn::Metric& self) {
        const auto [name, value] = self.get();
        return fmt::format("{}: {}", name, value);
      });
  m.def(
      "metric",
      [](const std::string& name, int axis, std::int64_t k, bool from_scores,
         std::optional<std::int64_t> ignore_label) -> std::shared_ptr<nn::Metric> {
        return nn::metric(name, {axis, k, from_scores, ignore_label});
      },
      py::arg("name"), py::arg("axis") = -1, py::arg("k") = 5, py::arg("from_scores") = true,
      py::arg("ignore_label") = py::none(), "A metric by name: metric('accuracy').");
  m.def("metric_names", &nn::metric_names);
  m.def(
      "custom",
      [](const std::string& name, const py::object& function) -> std::shared_ptr<nn::Metric> {
        return std::make_shared<nn::CustomMetric>(
            name, [call = PythonCall(function)](const Tensor& label, const Tensor& prediction) {
              const py::gil_scoped_acquire locked;
              return py::cast<double>(py::float_(call.get()(label, prediction)));
            });
      },
      py::arg("name"), py::arg("function"),
      "The mean over samples of what function(label, prediction) gives for a batch.");
}

}  // namespace lockstep::python
