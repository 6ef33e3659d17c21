// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "bindings/bindings.h"
#include "bindings/casters.h"

namespace lockstep::python {
namespace {

py::object dtypes_module() { return py::module_::import("lockstep.dtypes"); }

}  // namespace

py::object dtype_object(DType dtype) {
  // Made once and never freed, as the module itself.
  static const auto* objects = [] {
    auto* list = new std::array<PyObject*, kDTypeCount>();
    const py::object module = dtypes_module();
    for (int i = 0; i < kDTypeCount; ++i) {
      const std::string name(name_of(static_cast<DType>(i)));
      (*list)[static_cast<std::size_t>(i)] =
          py::object(module.attr("as_dtype")(name)).release().ptr();
    }
    return list;
  }();
  return py::reinterpret_borrow<py::object>((*objects)[static_cast<std::size_t>(dtype)]);
}

DType to_dtype(PyObject* object) {
  if (PyUnicode_Check(object)) return dtype_from_name(py::cast<std::string>(py::handle(object)));
  const py::object found = dtypes_module().attr("as_dtype")(py::handle(object));
  return dtype_from_name(py::cast<std::string>(found.attr("name")));
}

Device to_device(PyObject* object) {
  if (PyLong_Check(object)) return cpu(py::cast<int>(py::handle(object)));
  return py::cast<Device>(py::handle(object));
}

std::vector<std::int64_t> to_ints(PyObject* object) {
  const py::handle handle(object);
  if (PyIndex_Check(object) && !is_tensor(object)) return {py::cast<std::int64_t>(handle)};
  if (PyUnicode_Check(object) || (!PySequence_Check(object) && !is_tensor(object)))
    throw py::type_error("expected integers, got " + py::cast<std::string>(py::repr(handle)));
  std::vector<std::int64_t> values;
  for (const py::handle& item : handle) {
    const auto index = py::reinterpret_steal<py::object>(PyNumber_Index(item.ptr()));
    if (!index) throw py::error_already_set();
    values.push_back(py::cast<std::int64_t>(index));
  }
  return values;
}

py::tuple shape_tuple(const Dims& dims) {
  py::tuple result(dims.rank());
  for (int i = 0; i < dims.rank(); ++i) result[static_cast<std::size_t>(i)] = dims[i];
  return result;
}

void bind_types(py::module_& m) {
  py::class_<Device>(m, "Device", "Where a tensor's memory is.")
      .def_property_readonly("kind", [](const Device& d) { return std::string(name_of(d.kind)); })
      .def_property_readonly("index", [](const Device& d) { return d.index; })
      .def("__eq__",
           [](const Device& a, const py::object& b) {
             return py::isinstance<Device>(b) && a == py::cast<Device>(b);
           })
      .def("__hash__", [](const Device& d) { return std::hash<int>()(d.index); })
      .def("__repr__", [](const Device& d) { return d.str(); });
  m.def("cpu", &cpu, py::arg("index") = 0, "The host, under one of as many names as are wanted.");
  m.def("_promote", &promote);
}

}  // namespace lockstep::python
