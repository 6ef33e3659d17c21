// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

#include <string>

namespace lockstep::python {

namespace py = pybind11;

// Throws TypeError: "fit: epochs must be int, got '1'".
[[noreturn]] void refuse(const std::string& argument, const std::string& wanted,
                         const py::handle& given);

// What an argument is as a T, or a refusal.
template <class T>
T argument_as(const py::handle& given, const std::string& argument,
              const std::string& wanted = py::detail::make_caster<T>::name.text) {
  try {
    return py::cast<T>(given);
  } catch (const py::cast_error&) {
    refuse(argument, wanted, given);
  }
}

// From then on the functions that the module has say in one line of Python's words what is wrong
// with their arguments (lockstep/_arguments.py).
void explain_arguments(const py::module_& m);

}  // namespace lockstep::python
