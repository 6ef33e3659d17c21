// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bindings/casters.h"
#include "lockstep/nn/block.h"
#include "lockstep/nn/layers/extents.h"

namespace lockstep::python {

// A block whose forward is written in Python.
class PythonBlock final : public nn::Block {
 public:
  Tensor forward(const Tensor& x) override;
  std::vector<Tensor> forward_all(const std::vector<Tensor>& inputs) override;
  std::string description() const override;

  nn::Parameter new_parameter(const std::string& name, const Shape& shape,
                              nn::ParameterOptions options) {
    return add_parameter(name, shape, std::move(options));
  }
  void new_child(const std::string& name, nn::BlockPtr block) { add_child(name, std::move(block)); }

 private:
  std::vector<Tensor> run(const std::vector<Tensor>& inputs);
};

// What the engine keeps of a Python object: the object itself stays alive with it, so that forward
// and attributes are there for as long as the block is.
nn::BlockPtr block_of(const py::handle& object, const char* argument = "block");

// lockstep.nn's initialisers, and any function of a shape. None: an empty one.
nn::Initializer to_initializer(const py::handle& object);

// A class for Python to hold: Initializer itself is converted to and from what Python gives.
struct HeldInitializer {
  nn::Initializer init;
};

// A Python callable as a function of the engine's: called under the GIL, from any thread.
class PythonCall {
 public:
  explicit PythonCall(py::object function) : function_(keep(std::move(function))) {}
  // The caller holds the GIL.
  py::handle get() const { return static_cast<PyObject*>(function_.get()); }

 private:
  std::shared_ptr<void> function_;
};

}  // namespace lockstep::python

namespace pybind11::detail {

template <>
struct type_caster<lockstep::nn::Extents> {
  PYBIND11_TYPE_CASTER(lockstep::nn::Extents, const_name("int | tuple[int, ...]"));
  bool load(handle source, bool) {
    if (!source.is_none()) value = lockstep::nn::Extents(lockstep::python::to_ints(source.ptr()));
    return true;
  }
  static handle cast(const lockstep::nn::Extents& extents, return_value_policy, handle) {
    return pybind11::cast(extents.list()).release();
  }
};

template <>
struct type_caster<lockstep::nn::Initializer> {
  PYBIND11_TYPE_CASTER(lockstep::nn::Initializer, const_name("Initializer | None"));
  bool load(handle source, bool) {
    value = lockstep::python::to_initializer(source);
    return true;
  }
  static handle cast(const lockstep::nn::Initializer& init, return_value_policy, handle) {
    if (!init) return none().release();
    return pybind11::cast(lockstep::python::HeldInitializer{init}).release();
  }
};

}  // namespace pybind11::detail
