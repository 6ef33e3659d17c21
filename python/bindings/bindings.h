// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

// One function a file: what it adds to the module.
namespace lockstep::python {

namespace py = pybind11;

void bind_errors(py::module_& m);
void bind_types(py::module_& m);
void bind_tensor(py::module_& m);
void bind_memory(py::module_& m);
void bind_ops(py::module_& m);
void bind_functions(py::module_& m);
void bind_autograd(py::module_& m);
void bind_graph(py::module_& m);
void bind_history(py::module_& m);
void bind_io(py::module_& m);

void bind_parameter(py::module_& nn);
void bind_block(py::module_& nn);
void bind_layers(py::module_& nn);
void bind_more_layers(py::module_& nn);
void bind_models(py::module_& nn);
void bind_loss(py::module_& nn);

void bind_metric(py::module_& m);
void bind_optim(py::module_& m);
void bind_data(py::module_& m);
void bind_job(py::module_& m);
void bind_train(py::module_& m);
void bind_runs(py::module_& m);

}  // namespace lockstep::python
