// SPDX-License-Identifier: Apache-2.0
#include "lockstep/autograd/autograd.h"

#include <memory>
#include <tuple>

#include "bindings/bindings.h"
#include "bindings/casters.h"
#include "bindings/python_function.h"
#include "lockstep/autograd/forgetting.h"
#include "lockstep/nn/functional.h"
#include "lockstep/ops/random_ops.h"

namespace lockstep::python {
namespace {

// A scope of C++ as Python's `with` has it: entered and left by the same thread, in order.
template <class Scope, class... A>
class With {
 public:
  explicit With(A... arguments) : arguments_(std::move(arguments)...) {}
  With(const With&) = delete;
  With& operator=(const With&) = delete;

  void enter() {
    if (scopes_.size() > 1000) throw InvalidArgument("with: entered 1000 times without leaving");
    scopes_.push_back(
        std::apply([](const A&... a) { return std::make_unique<Scope>(a...); }, arguments_));
  }
  void leave() {
    if (!scopes_.empty()) scopes_.pop_back();
  }

 private:
  std::tuple<A...> arguments_;
  std::vector<std::unique_ptr<Scope>> scopes_;
};

template <class W>
py::class_<W> bind_with(py::module_& m, const char* name) {
  return py::class_<W>(m, name)
      .def("__enter__",
           [](py::object self) {
             py::cast<W&>(self).enter();
             return self;
           })
      .def("__exit__", [](W& self, const py::args&) { self.leave(); });
}

using Record = With<autograd::RecordScope, bool>;
using Pause = With<autograd::PauseScope, bool>;
using ModeWith = With<autograd::ModeScope, bool>;
using RandomWith = With<RandomScope, Tensor>;

// forward and backward written in Python.
class PythonFunction final : public autograd::Function, public WrittenInPython {
 public:
  explicit PythonFunction(py::object function) : function_(keep(std::move(function))) {}
  std::vector<Tensor> forward(std::span<const Tensor> inputs) override {
    return call("forward", inputs);
  }
  std::vector<Tensor> backward(std::span<const Tensor> grads) override {
    return call("backward", grads);
  }
  py::object object() const override {
    return py::reinterpret_borrow<py::object>(static_cast<PyObject*>(function_.get()));
  }

 private:
  std::vector<Tensor> call(const char* method, std::span<const Tensor> tensors) {
    const py::gil_scoped_acquire locked;
    const py::handle self(static_cast<PyObject*>(function_.get()));
    py::tuple arguments(tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) arguments[i] = py::cast(tensors[i]);
    const py::object result = self.attr(method)(*arguments);
    std::vector<Tensor> outputs;
    if (!PyTuple_Check(result.ptr()) && !PyList_Check(result.ptr()))
      return {result.is_none() ? Tensor() : to_tensor(result)};
    for (const py::handle& item : result)
      outputs.push_back(item.is_none() ? Tensor() : to_tensor(item));
    return outputs;
  }
  std::shared_ptr<void> function_;
};

std::vector<Tensor> list_of(const py::object& tensors) {
  if (tensors.is_none()) return {};
  if (!PyList_Check(tensors.ptr()) && !PyTuple_Check(tensors.ptr())) return {to_tensor(tensors)};
  std::vector<Tensor> list;
  for (const py::handle& tensor : tensors)
    list.push_back(tensor.is_none() ? Tensor() : to_tensor(tensor));
  return list;
}

autograd::GradMode mode_of(const std::string& name) {
  if (name == "write") return autograd::GradMode::write;
  if (name == "add") return autograd::GradMode::add;
  if (name == "off" || name == "null") return autograd::GradMode::off;
  throw InvalidArgument("attach_grad: there is no mode '{}' (there are: write, add, off)", name);
}

void bind_scopes(py::module_& m) {
  bind_with<Record>(m, "_Record");
  bind_with<Pause>(m, "_Pause");
  bind_with<ModeWith>(m, "_Mode");
  bind_with<RandomWith>(m, "_RandomScope");
  m.def(
      "_record", [](bool train) { return std::make_unique<Record>(train); },
      py::arg("train_mode") = true);
  m.def(
      "_pause", [](bool train) { return std::make_unique<Pause>(train); },
      py::arg("train_mode") = false);
  m.def("_mode", [](bool train) { return std::make_unique<ModeWith>(train); });
  m.def(
      "_random_scope",
      [](std::uint64_t seed, std::uint32_t step, std::uint32_t shard) {
        return std::make_unique<RandomWith>(random_key(seed, step, shard));
      },
      py::arg("seed"), py::arg("step") = 0, py::arg("shard") = 0);
  m.def("is_recording", &autograd::is_recording);
  m.def("is_training", &autograd::is_training);
}

}  // namespace

void bind_autograd(py::module_& m) {
  bind_scopes(m);
  m.def(
      "attach_grad",
      [](const Tensor& x, const std::string& mode) { autograd::attach_grad(x, mode_of(mode)); },
      py::arg("x"), py::arg("mode") = "write");
  m.def("zero_gradient", &autograd::zero_gradient);
  m.def(
      "backward",
      [](const py::object& heads, const py::object& grads, bool retain) {
        const std::vector<Tensor> from = list_of(heads), with = list_of(grads);
        const py::gil_scoped_release released;
        autograd::backward(from, with, retain);
      },
      py::arg("heads"), py::arg("head_grads") = py::none(), py::arg("retain") = false);
  m.def("_backward_and_forget", [](const py::object& heads, const py::object& grads) {
    const std::vector<Tensor> from = list_of(heads), with = list_of(grads);
    const py::gil_scoped_release released;
    autograd::backward_and_forget(from, with);
  });
  m.def(
      "grad",
      [](const py::object& heads, const py::object& variables, const py::object& grads,
         bool create_graph, bool retain) {
        const std::vector<Tensor> from = list_of(heads), to = list_of(variables),
                                  with = list_of(grads);
        const py::gil_scoped_release released;
        return autograd::grad(from, to, with, create_graph, retain);
      },
      py::arg("heads"), py::arg("variables"), py::arg("head_grads") = py::none(),
      py::arg("create_graph") = false, py::arg("retain") = false);
  m.def("_call_function", [](py::object function, const std::vector<Tensor>& inputs) {
    auto held = std::make_shared<PythonFunction>(std::move(function));
    const py::gil_scoped_release released;
    return autograd::call(std::move(held), inputs);
  });
  m.def(
      "_mode_dropout", [](const Tensor& x, double p) { return nn::dropout(x, p); }, py::arg("x"),
      py::arg("p"));
}

}  // namespace lockstep::python
