// SPDX-License-Identifier: Apache-2.0
#include "bindings/block.h"

#include "bindings/arguments.h"
#include "bindings/bindings.h"
#include "bindings/placed.h"
#include "lockstep/nn/call_notes.h"

namespace lockstep::python {
namespace {

py::handle python_self(const PythonBlock& block) {
  const auto* info = py::detail::get_type_info(typeid(nn::Block));
  const py::handle self =
      py::detail::get_object_handle(static_cast<const nn::Block*>(&block), info);
  check(static_cast<bool>(self), "a Python block without its object");
  return self;
}

py::object nested() { return py::module_::import("lockstep._nested"); }

bool is_sequence(const py::handle& object) {
  return PyTuple_Check(object.ptr()) || PyList_Check(object.ptr());
}

// How the tensors of a call stand among its arguments (lockstep/_nested.py), and, left by forward,
// those of what it returned; None: one after the other, and one alone.
class PythonCallNotes final : public nn::CallNotes {
 public:
  explicit PythonCallNotes(const PythonBlock& block) : CallNotes(block), block_(block) {}
  std::uint64_t arrangement() override {
    const py::gil_scoped_acquire locked;
    if (arguments.is_none()) return 0;
    return py::cast<std::uint64_t>(nested().attr("number_of")(python_self(block_), arguments));
  }
  py::object arguments = py::none();

 private:
  const PythonBlock& block_;
};

// (notes, outputs) -> what Python's caller gets.
py::object answer(const nn::CallNotes& notes, const std::vector<Tensor>& outputs) {
  if (notes.left != nullptr) {
    const auto* template_ = static_cast<const PyObject*>(notes.left.get());
    return nested().attr("fill")(py::handle(const_cast<PyObject*>(template_)), outputs);
  }
  if (outputs.size() == 1) return py::cast(outputs[0]);
  return py::tuple(py::cast(outputs));
}

bool are_tensors(const py::args& args) {
  for (const py::handle& arg : args)
    if (!is_tensor(arg.ptr())) return false;
  return true;
}

py::object call_python_block(PythonBlock& block, const py::args& args, const py::kwargs& kwargs) {
  std::vector<Tensor> inputs;
  PythonCallNotes notes(block);
  if (kwargs.empty() && are_tensors(args)) {
    for (const py::handle& arg : args) inputs.push_back(tensor_of(arg.ptr()));
  } else {
    const py::tuple flat = nested().attr("flatten")(py::make_tuple(args, kwargs));
    inputs = py::cast<std::vector<Tensor>>(flat[0]);
    notes.arguments = flat[1];
  }
  std::vector<Tensor> outputs;
  {
    const py::gil_scoped_release released;
    outputs = block(inputs);
  }
  return answer(notes, outputs);
}

// One tensor gives one; several, or a list, give as many as there are.
py::object call_engine_block(nn::Block& block, const py::args& args) {
  const bool listed = args.size() == 1 && is_sequence(args[0]);
  if (args.size() == 1 && !listed) {
    const Tensor x = to_tensor(args[0]);
    Tensor y;
    {
      const py::gil_scoped_release released;
      y = block(x);
    }
    return py::cast(y);
  }
  const auto inputs =
      py::cast<std::vector<Tensor>>(listed ? py::object(args[0]) : py::object(args));
  std::vector<Tensor> outputs;
  {
    const py::gil_scoped_release released;
    outputs = block(inputs);
  }
  if (outputs.size() == 1 && !listed) return py::cast(outputs[0]);
  return py::tuple(py::cast(outputs));
}

py::object call_block(nn::Block& block, const py::args& args, const py::kwargs& kwargs) {
  if (auto* python = dynamic_cast<PythonBlock*>(&block))
    return call_python_block(*python, args, kwargs);
  if (!kwargs.empty()) throw py::type_error(block.description() + ": takes tensors without names");
  return call_engine_block(block, args);
}

PythonBlock& python_block(nn::Block& block, const char* what) {
  auto* python = dynamic_cast<PythonBlock*>(&block);
  if (python == nullptr)
    throw InvalidArgument("{}: {} cannot be added to {}", what, what, block.description());
  return *python;
}

py::dict parameters_of(const std::vector<nn::NamedParameter>& list) {
  py::dict all;
  for (const nn::NamedParameter& named : list) all[py::str(named.name)] = py::cast(named.parameter);
  return all;
}

std::vector<TensorInfo> infos_of(const py::args& inputs) {
  std::vector<TensorInfo> infos;
  for (const py::handle& input : inputs) {
    TensorInfo info;
    if (is_sequence(input))
      info.shape = py::cast<Shape>(input);
    else
      info = to_tensor(input).info();
    infos.push_back(info);
  }
  return infos;
}

nn::Mode mode_of(const std::string& name) {
  if (name == "inherit") return nn::Mode::inherit;
  if (name == "train") return nn::Mode::train;
  if (name == "predict") return nn::Mode::predict;
  throw InvalidArgument("set_mode: there is no '{}' (there are: inherit, train, predict)", name);
}

std::vector<Tensor> hook_result(const py::object& result) {
  if (result.is_none()) return {};
  if (is_sequence(result)) return py::cast<std::vector<Tensor>>(result);
  return {to_tensor(result)};
}

py::tuple tuple_of(const std::vector<Tensor>& tensors) { return py::tuple(py::cast(tensors)); }

py::object by_reference(nn::Block& block) {
  return py::cast(&block, py::return_value_policy::reference);
}

using BlockClass = py::class_<nn::Block, PythonBlock, std::shared_ptr<nn::Block>>;

void bind_parts(BlockClass& block) {
  block
      .def("_add_child",
           [](nn::Block& self, const std::string& name, const py::object& child) {
             python_block(self, "a child").new_child(name, block_of(child));
           })
      .def("_add_parameter",
           [](nn::Block& self, const std::string& name, const nn::Parameter& given) {
             PythonBlock& python = python_block(self, "a parameter");
             python.new_parameter(name, given.shape(), given.options()).share(given);
           })
      .def("_replace_child",
           [](nn::Block& self, const std::string& path, const py::object& child) {
             self.replace_child(path, block_of(child));
           })
      .def(
          "children",
          [](const nn::Block& self) {
            py::dict all;
            for (const nn::Block::Child& child : self.children())
              all[py::str(child.name)] = py::cast(child.block);
            return all;
          },
          "The blocks in it, by name.")
      .def("child", &nn::Block::child, py::arg("path"), "A descendant by its path.")
      .def(
          "parameters",
          [](const nn::Block& self, const std::optional<std::string>& pattern) {
            return parameters_of(pattern ? self.parameters(*pattern) : self.parameters());
          },
          py::arg("pattern") = py::none(),
          "Its own and its descendants' parameters by name, or those that match an expression.")
      .def("parameter", &nn::Block::parameter, py::arg("name"));
}

void bind_state(BlockClass& block) {
  block
      .def("initialize", &nn::Block::initialize, py::arg("init") = nn::init::fan_in(),
           py::arg("seed") = 0, py::arg("force") = false,
           "Contents for every parameter: a function of the seed and its name.",
           py::call_guard<py::gil_scoped_release>())
      .def(
          "complete_shapes",
          [](nn::Block& self, const py::args& inputs) {
            const std::vector<TensorInfo> infos = infos_of(inputs);
            const py::gil_scoped_release released;
            self.complete_shapes(infos);
          },
          "Tells shapes that are not known yet, from inputs or their shapes.")
      .def(
          "save", [](const nn::Block& self, const FilePath& path) { self.save(path.text); },
          py::arg("path"), py::call_guard<py::gil_scoped_release>())
      .def(
          "load",
          [](nn::Block& self, const FilePath& path, bool allow_missing, bool ignore_extra,
             bool skip_mismatched) {
            return self.load(path.text, {allow_missing, ignore_extra, skip_mismatched}).summary();
          },
          py::arg("path"), py::arg("allow_missing") = false, py::arg("ignore_extra") = false,
          py::arg("skip_mismatched") = false, py::call_guard<py::gil_scoped_release>())
      .def("cast", &nn::Block::cast, py::arg("dtype"))
      .def("share_parameters", &nn::Block::share_parameters, py::arg("other"))
      .def("hybridize", &nn::Block::hybridize, py::arg("active") = true, py::arg("plans") = 32,
           "Compiles forward for each combination of input shapes.")
      .def("set_mode",
           [](nn::Block& self, const std::string& name) { self.set_mode(mode_of(name)); })
      .def("set_multipliers", &nn::Block::set_multipliers, py::arg("pattern"), py::arg("rate"),
           py::arg("decay") = 1.0)
      .def(
          "freeze",
          [](nn::Block& self, const std::optional<std::string>& pattern) {
            pattern ? self.freeze(*pattern) : self.freeze();
          },
          py::arg("pattern") = py::none())
      .def(
          "unfreeze",
          [](nn::Block& self, const std::optional<std::string>& pattern) {
            pattern ? self.unfreeze(*pattern) : self.unfreeze();
          },
          py::arg("pattern") = py::none());
}

void bind_hooks(py::module_& m, BlockClass& block) {
  py::class_<nn::HookHandle>(m, "HookHandle")
      .def("remove", &nn::HookHandle::remove)
      .def("is_attached", &nn::HookHandle::is_attached);
  block
      .def(
          "register_forward_pre_hook",
          [](nn::Block& self, py::object hook) {
            return self.register_forward_pre_hook([call = PythonCall(std::move(hook))](
                                                      nn::Block& of, const std::vector<Tensor>& x) {
              const py::gil_scoped_acquire locked;
              return placed([&] { return hook_result(call.get()(by_reference(of), tuple_of(x))); });
            });
          })
      .def("register_forward_hook", [](nn::Block& self, py::object hook) {
        return self.register_forward_hook(
            [call = PythonCall(std::move(hook))](nn::Block& of, const std::vector<Tensor>& x,
                                                 const std::vector<Tensor>& y) {
              const py::gil_scoped_acquire locked;
              return placed([&] {
                return hook_result(call.get()(by_reference(of), tuple_of(x), tuple_of(y)));
              });
            });
      });
}

void bind_sequential(py::module_& m) {
  py::class_<nn::Sequential, nn::Block, std::shared_ptr<nn::Sequential>>(
      m, "Sequential", "Blocks one after the other; children are named '0', '1', ...")
      .def(py::init([](const py::args& blocks) {
        auto made = std::make_shared<nn::Sequential>();
        for (const py::handle& block : blocks) made->add(block_of(block, "Sequential: a layer"));
        return made;
      }))
      .def("add",
           [](const py::object& self, const py::args& blocks) {
             auto& sequential = py::cast<nn::Sequential&>(self);
             for (const py::handle& block : blocks)
               sequential.add(block_of(block, "Sequential.add: a layer"));
             return self;
           })
      .def("__len__", &nn::Sequential::size)
      .def("__getitem__", [](const nn::Sequential& self, std::int64_t index) {
        const auto size = static_cast<std::int64_t>(self.size());
        if (index < -size || index >= size) throw py::index_error("Sequential: no such block");
        return self.children()[static_cast<std::size_t>(index < 0 ? index + size : index)].block;
      });
}

}  // namespace

Tensor PythonBlock::forward(const Tensor& x) {
  std::vector<Tensor> outputs = run({x});
  if (outputs.empty()) throw InvalidArgument("{}: forward gives no tensor", description());
  return outputs.front();
}

std::vector<Tensor> PythonBlock::forward_all(const std::vector<Tensor>& inputs) {
  return run(inputs);
}

std::vector<Tensor> PythonBlock::run(const std::vector<Tensor>& inputs) {
  const py::gil_scoped_acquire locked;
  const py::handle self = python_self(*this);
  if (!py::hasattr(self, "forward"))
    throw InvalidArgument("{}: has no method forward", description());
  auto* notes = static_cast<PythonCallNotes*>(nn::CallNotes::of(*this));
  const py::object result = placed([&]() -> py::object {
    if (notes == nullptr || notes->arguments.is_none())
      return self.attr("forward")(*tuple_of(inputs));
    const py::tuple filled = nested().attr("fill")(notes->arguments, inputs);
    return self.attr("forward")(*py::tuple(filled[0]), **py::dict(filled[1]));
  });
  if (notes != nullptr) notes->left = nullptr;
  if (is_tensor(result.ptr())) return {tensor_of(result.ptr())};
  if (result.is_none()) throw InvalidArgument("{}: forward returned None", description());
  const py::tuple flat = nested().attr("flatten")(result);
  if (notes != nullptr) notes->left = keep(py::object(flat[1]));
  return py::cast<std::vector<Tensor>>(flat[0]);
}

std::string PythonBlock::description() const {
  const py::gil_scoped_acquire locked;
  const py::handle self = python_self(*this);
  if (py::hasattr(self, "description")) return py::cast<std::string>(self.attr("description")());
  return py::cast<std::string>(py::type::handle_of(self).attr("__name__"));
}

nn::BlockPtr block_of(const py::handle& object, const char* argument) {
  auto held = argument_as<nn::BlockPtr>(object, argument, "a Block");
  if (dynamic_cast<PythonBlock*>(held.get()) == nullptr) return held;
  return nn::BlockPtr(keep(py::reinterpret_borrow<py::object>(object)), held.get());
}

void bind_block(py::module_& m) {
  BlockClass block(
      m, "Block", py::dynamic_attr(),
      "A piece of a model: parameters, children, and `forward`, which a subclass has.");
  block.def(py::init_alias<>()).def("__call__", &call_block);
  block.def("_description", &nn::Block::description)
      .def("_summary", [](nn::Block& self, const py::args& inputs) {
        const std::vector<TensorInfo> infos = infos_of(inputs);
        const py::gil_scoped_release released;
        return self.summary(infos);
      });
  bind_parts(block);
  bind_state(block);
  bind_hooks(m, block);
  bind_sequential(m);
}

}  // namespace lockstep::python
