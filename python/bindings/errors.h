// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

namespace lockstep::python {

namespace py = pybind11;

// Sets Python's exception for the one that is being handled.
void set_python_error() noexcept;

// For functions that CPython calls: `body`, or nullptr with an exception set.
template <class F>
PyObject* guarded(F&& body) noexcept {
  try {
    return body();
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

template <class F>
int guarded_int(F&& body) noexcept {
  try {
    return body();
  } catch (...) {
    set_python_error();
    return -1;
  }
}

}  // namespace lockstep::python
