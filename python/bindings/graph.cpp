// SPDX-License-Identifier: Apache-2.0
#include "bindings/bindings.h"
#include "bindings/block.h"
#include "lockstep/graph/compiled_function.h"
#include "lockstep/graph/recorded_function.h"
#include "lockstep/graph/trace.h"
#include "lockstep/ops/create.h"

namespace lockstep::python {
namespace {

// A Python function that is traced and compiled for each combination of shapes and dtypes.
class HeldFunction {
 public:
  HeldFunction(const py::object& function, DType compute, std::size_t plans)
      : call_(function), compiled_(traced(), options(compute, plans)) {}

  py::object operator()(const py::args& args) {
    const auto inputs = py::cast<std::vector<Tensor>>(args);
    std::vector<Tensor> outputs;
    {
      const py::gil_scoped_release released;
      outputs = compiled_(inputs);
    }
    if (outputs.size() == 1) return py::cast(outputs[0]);
    outputs.pop_back();
    return py::tuple(py::cast(outputs));
  }
  std::size_t compiled_count() const { return compiled_.compiled_count(); }
  void clear() { compiled_.clear(); }

 private:
  static CompileOptions options(DType compute, std::size_t plans) {
    CompileOptions made;
    made.compute = compute;
    made.plans = plans;
    return made;
  }

  // Behind the tensors of a list stands an empty one, so that each compiled call knows what it
  // returns: another shape may have given one tensor, or a list of it.
  TensorFunction traced() {
    return [this](const std::vector<Tensor>& inputs) {
      const py::gil_scoped_acquire locked;
      const py::object result = call_.get()(*py::tuple(py::cast(inputs)));
      if (result.is_none()) throw InvalidArgument("compile: the function returned None");
      if (!py::isinstance<py::tuple>(result) && !py::isinstance<py::list>(result))
        return std::vector<Tensor>{to_tensor(result)};
      auto list = py::cast<std::vector<Tensor>>(result);
      if (list.empty()) throw InvalidArgument("compile: the function returned no tensor");
      list.push_back(zeros({0}));
      return list;
    };
  }

  PythonCall call_;
  CompiledFunction compiled_;
};

// A Python function that gives (outputs, extras), recorded as one function a call.
std::unique_ptr<RecordedFunction> recorded(const py::object& function,
                                           const std::vector<Tensor>& like,
                                           std::vector<std::size_t> wrt) {
  Infos infos;
  for (const Tensor& tensor : like) infos.push_back(tensor.info());
  const auto traced = [&](const std::vector<Tensor>& inputs) -> RecordedFunction::Results {
    const py::tuple results = function(*py::tuple(py::cast(inputs)));
    return {py::cast<std::vector<Tensor>>(results[0]), py::cast<std::vector<Tensor>>(results[1])};
  };
  return std::make_unique<RecordedFunction>(traced, infos, std::move(wrt));
}

// What a function does to tensors like these: its nodes in order, and a text of them.
py::tuple traced(const py::object& function, const std::vector<Tensor>& like) {
  Infos infos;
  for (const Tensor& tensor : like) infos.push_back(tensor.info());
  const Graph graph = trace(
      [&](const std::vector<Tensor>& inputs) {
        const py::object result = function(*py::tuple(py::cast(inputs)));
        if (!py::isinstance<py::tuple>(result) && !py::isinstance<py::list>(result))
          return std::vector<Tensor>{to_tensor(result)};
        return py::cast<std::vector<Tensor>>(result);
      },
      infos);
  py::list nodes;
  for (const Node& node : graph.nodes()) {
    py::list inputs, outputs;
    for (const ValueId& value : node.inputs)
      inputs.append(py::make_tuple(value.node, value.output));
    for (const TensorInfo& info : node.outputs) outputs.append(info.str());
    const std::string kind = node.op != nullptr   ? std::string(node.op->name)
                             : node.is_constant() ? "constant"
                                                  : "input";
    nodes.append(py::make_tuple(kind, node.name, inputs, outputs));
  }
  return py::make_tuple(nodes, graph.str());
}

}  // namespace

void bind_graph(py::module_& m) {
  py::class_<HeldFunction>(m, "CompiledFunction")
      .def("__call__", &HeldFunction::operator())
      .def_property_readonly("compiled_count", &HeldFunction::compiled_count)
      .def("clear", &HeldFunction::clear);
  py::class_<RecordedFunction>(m, "_RecordedFunction",
                               "A function whose calls are one function on the tape each.")
      .def(py::init(&recorded), py::arg("function"), py::arg("like"), py::arg("wrt"))
      .def("__call__", [](RecordedFunction& self, const std::vector<Tensor>& inputs) {
        RecordedFunction::Results results;
        {
          const py::gil_scoped_release released;
          results = self(inputs);
        }
        return py::make_tuple(results.outputs, results.extras);
      });
  m.def("_trace", &traced);
  m.def(
      "compile",
      [](const py::object& function, DType compute, std::size_t plans) {
        return std::make_unique<HeldFunction>(function, compute, plans);
      },
      py::arg("function"), py::arg("compute") = DType::float32, py::arg("plans") = 32,
      "A function of tensors that is traced and compiled when it first meets a combination of\n"
      "shapes and dtypes, and runs compiled from then on.");
}

}  // namespace lockstep::python
