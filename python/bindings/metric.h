// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "bindings/casters.h"
#include "lockstep/nn/metric.h"

namespace lockstep::python {

// A name, one of lockstep.metrics, or an object with update(label, prediction), reset() and get().
std::shared_ptr<nn::Metric> to_metric(const py::object& metric);
std::vector<std::shared_ptr<nn::Metric>> to_metrics(const py::object& metrics);

}  // namespace lockstep::python
