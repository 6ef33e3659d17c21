// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "bindings/py_tensor.h"
#include "lockstep/tensor/device.h"
#include "lockstep/tensor/dtype.h"

namespace lockstep::python {

// lockstep/dtypes.py has the objects.
py::object dtype_object(DType dtype);
// A DType, its name, NumPy's dtype, or Python's float, int and bool. Throws InvalidArgument.
DType to_dtype(PyObject* object);
// A Device, or the index of a cpu.
Device to_device(PyObject* object);
// An integer or a sequence of them.
std::vector<std::int64_t> to_ints(PyObject* object);
py::tuple shape_tuple(const Dims& dims);

// Of a file or a folder.
struct FilePath {
  std::string text;
};

}  // namespace lockstep::python

namespace pybind11::detail {

template <>
struct type_caster<lockstep::Tensor> {
  PYBIND11_TYPE_CASTER(lockstep::Tensor, const_name("lockstep.Tensor"));
  bool load(handle source, bool convert) {
    if (lockstep::python::is_tensor(source.ptr())) {
      value = lockstep::python::tensor_of(source.ptr());
      return true;
    }
    if (source.is_none()) return true;
    if (!convert) return false;
    value = lockstep::python::to_tensor(source.ptr());
    return true;
  }
  static handle cast(lockstep::Tensor tensor, return_value_policy, handle) {
    return lockstep::python::wrap(std::move(tensor));
  }
};

template <>
struct type_caster<lockstep::DType> {
  PYBIND11_TYPE_CASTER(lockstep::DType, const_name("lockstep.DType"));
  bool load(handle source, bool) {
    value = lockstep::python::to_dtype(source.ptr());
    return true;
  }
  static handle cast(lockstep::DType dtype, return_value_policy, handle) {
    return lockstep::python::dtype_object(dtype).release();
  }
};

template <>
struct type_caster<lockstep::python::FilePath> {
  PYBIND11_TYPE_CASTER(lockstep::python::FilePath, const_name("str | os.PathLike"));
  bool load(handle source, bool) {
    if (!isinstance<str>(source) && !hasattr(source, "__fspath__")) return false;
    value.text = pybind11::cast<std::string>(module_::import("os").attr("fspath")(source));
    return true;
  }
};

template <>
struct type_caster<lockstep::Dims> {
  PYBIND11_TYPE_CASTER(lockstep::Dims, const_name("tuple[int, ...]"));
  bool load(handle source, bool) {
    value = lockstep::Dims(lockstep::python::to_ints(source.ptr()));
    return true;
  }
  static handle cast(const lockstep::Dims& dims, return_value_policy, handle) {
    return lockstep::python::shape_tuple(dims).release();
  }
};

}  // namespace pybind11::detail
