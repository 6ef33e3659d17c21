// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

namespace lockstep::python {

// What an autograd::Function that is written in Python is there.
class WrittenInPython {
 public:
  virtual ~WrittenInPython() = default;
  virtual pybind11::object object() const = 0;
};

}  // namespace lockstep::python
