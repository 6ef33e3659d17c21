// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/parameter.h"

#include "bindings/bindings.h"
#include "bindings/block.h"

namespace lockstep::python {
namespace {

autograd::GradMode grad_mode(const std::string& name) {
  if (name == "write") return autograd::GradMode::write;
  if (name == "add") return autograd::GradMode::add;
  if (name == "off" || name == "null") return autograd::GradMode::off;
  throw InvalidArgument("parameter: there is no mode '{}' (there are: write, add, off)", name);
}

nn::Parameter make_parameter(const Shape& shape, const nn::Initializer& init, DType dtype,
                             bool trainable, double rate_multiplier, double decay_multiplier,
                             bool sparse_grad) {
  nn::ParameterOptions options;
  options.init = init;
  options.dtype = dtype;
  options.trainable = trainable;
  options.rate_multiplier = rate_multiplier;
  options.decay_multiplier = decay_multiplier;
  options.sparse_grad = sparse_grad;
  return nn::Parameter(shape, options);
}

nn::init::Fan fan_of(const std::string& name) {
  if (name == "average" || name == "avg") return nn::init::Fan::average;
  if (name == "in") return nn::init::Fan::in;
  if (name == "out") return nn::init::Fan::out;
  throw InvalidArgument("init: there is no fan '{}' (there are: average, in, out)", name);
}

// An initialiser that Python wrote: a function of the shape.
nn::Initializer from_callable(const py::object& function) {
  std::string name = "custom";
  if (py::hasattr(function, "__name__")) name = py::cast<std::string>(function.attr("__name__"));
  return {name, [call = PythonCall(function)](const Shape& shape) {
            const py::gil_scoped_acquire locked;
            return to_tensor(call.get()(shape_tuple(shape)));
          }};
}

void bind_initializers(py::module_& m) {
  py::class_<HeldInitializer>(m, "Initializer", "How a parameter starts.")
      .def_property_readonly("name", [](const HeldInitializer& self) { return self.init.name; })
      .def("__call__",
           [](const HeldInitializer& self, const Shape& shape) { return self.init.make(shape); })
      .def("__repr__", [](const HeldInitializer& self) { return self.init.name; });
  py::module_ init = m.def_submodule("init", "How parameters start.");
  init.def("zero", &nn::init::zero, "All 0.");
  init.def("one", &nn::init::one, "All 1.");
  init.def("constant", &nn::init::constant, py::arg("value"));
  init.def("uniform", &nn::init::uniform, py::arg("scale") = 0.07, "In [-scale, scale).");
  init.def("normal", &nn::init::normal, py::arg("sigma") = 0.01);
  init.def("fan_in", &nn::init::fan_in, "Uniform in 1 / sqrt(inputs of a unit).");
  init.def(
      "xavier",
      [](bool gaussian, const std::string& fan, double magnitude) {
        return nn::init::xavier(gaussian, fan_of(fan), magnitude);
      },
      py::arg("gaussian") = false, py::arg("fan") = "average", py::arg("magnitude") = 3.0);
  init.def(
      "msra_prelu",
      [](const std::string& fan, double slope) { return nn::init::msra_prelu(fan_of(fan), slope); },
      py::arg("fan") = "average", py::arg("slope") = 0.25);
  init.def("orthogonal", &nn::init::orthogonal, py::arg("scale") = 1.414);
  init.def("bilinear", &nn::init::bilinear);
  init.def("lstm_bias", &nn::init::lstm_bias, py::arg("forget") = 1.0);
}

}  // namespace

nn::Initializer to_initializer(const py::handle& object) {
  if (object.is_none()) return {};
  if (py::isinstance<HeldInitializer>(object)) return py::cast<HeldInitializer&>(object).init;
  if (PyCallable_Check(object.ptr()) != 0)
    return from_callable(py::reinterpret_borrow<py::object>(object));
  throw py::type_error("expected an initialiser of lockstep.nn.init or a function of a shape");
}

void bind_parameter(py::module_& m) {
  bind_initializers(m);
  py::class_<nn::Parameter>(m, "Parameter",
                            "A named tensor of a block. Extents of -1 are told by the first input.")
      .def(py::init(&make_parameter), py::arg("shape"), py::arg("init") = nn::Initializer(),
           py::arg("dtype") = DType::float32, py::arg("trainable") = true,
           py::arg("rate_multiplier") = 1.0, py::arg("decay_multiplier") = 1.0,
           py::arg("sparse_grad") = false)
      .def_property_readonly("name", &nn::Parameter::name)
      .def_property_readonly("shape", &nn::Parameter::shape)
      .def_property_readonly("dtype", &nn::Parameter::dtype)
      .def("data", &nn::Parameter::data, "The contents; while tracing, what stands for them.")
      .def("__lockstep_tensor__", &nn::Parameter::data)
      .def("set_data", &nn::Parameter::set_data, py::arg("value"))
      .def("update", &nn::Parameter::update, py::arg("value"),
           "A new value that no gradient makes, such as a running statistic.")
      .def("grad", &nn::Parameter::grad, "What backward left, or None.")
      .def("zero_grad",
           [](const nn::Parameter& self) {
             if (self.grad().defined()) autograd::zero_gradient(self.data());
           })
      .def("complete", &nn::Parameter::complete, py::arg("shape"),
           "Fills in the extents that are not known yet.")
      .def(
          "initialize",
          [](const nn::Parameter& self, const nn::Initializer& init, std::uint64_t seed,
             bool force) {
            const std::string name = self.name().empty() ? "parameter" : self.name();
            self.initialize(name, init ? init : nn::init::fan_in(), seed, force);
          },
          py::arg("init") = nn::Initializer(), py::arg("seed") = 0, py::arg("force") = false)
      .def("is_initialized", &nn::Parameter::is_initialized)
      .def("set_grad_mode", [](const nn::Parameter& self,
                               const std::string& mode) { self.set_grad_mode(grad_mode(mode)); })
      .def_property("trainable", &nn::Parameter::wants_gradient, &nn::Parameter::set_trainable)
      .def("set_multipliers", &nn::Parameter::set_multipliers, py::arg("rate"), py::arg("decay"))
      .def("share", &nn::Parameter::share, py::arg("other"))
      .def("same_as", &nn::Parameter::same_as)
      .def("cast", &nn::Parameter::cast, py::arg("dtype"))
      .def("__repr__", [](const nn::Parameter& self) {
        return fmt::format("Parameter({}, {}{})", self.name().empty() ? "unnamed" : self.name(),
                           name_of(self.dtype()), self.shape().str());
      });
}

}  // namespace lockstep::python
