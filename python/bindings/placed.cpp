// SPDX-License-Identifier: Apache-2.0
#include "bindings/placed.h"

namespace lockstep::python {

namespace py = pybind11;

void PlacedPythonError::set_place(const std::string& path) {
  const py::gil_scoped_acquire locked;
  const py::module_ errors = py::module_::import("lockstep.errors");
  if (!matches(errors.attr("InvalidArgument")) && !matches(errors.attr("Unsupported"))) return;
  value().attr("args") = py::make_tuple(path + py::cast<std::string>(py::str(value())));
}

}  // namespace lockstep::python
