// SPDX-License-Identifier: Apache-2.0
#include "bindings/arguments.h"
#include "bindings/bindings.h"
#include "lockstep/base/version.h"

PYBIND11_MODULE(_core, m) {
  using namespace lockstep::python;
  m.doc() = "The engine. The package lockstep is made of it.";
  m.attr("__version__") = lockstep::version();
  bind_errors(m);
  bind_types(m);
  bind_tensor(m);
  bind_memory(m);
  bind_ops(m);
  bind_functions(m);
  bind_autograd(m);
  bind_graph(m);
  bind_history(m);
  bind_io(m);
  py::module_ nn = m.def_submodule("nn", "Blocks, layers and losses.");
  bind_parameter(nn);
  bind_block(nn);
  bind_layers(nn);
  bind_more_layers(nn);
  bind_models(nn);
  bind_loss(nn);
  bind_metric(m);
  bind_optim(m);
  bind_data(m);
  bind_job(m);
  bind_train(m);
  bind_runs(m);
  explain_arguments(m);
}
