// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

#include "lockstep/optim/schedule.h"

namespace lockstep::python {

namespace py = pybind11;

// One of lockstep.optim's, a function of the step, or None.
optim::Schedule to_schedule(const py::object& schedule);

}  // namespace lockstep::python
