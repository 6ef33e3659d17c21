// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "bindings/casters.h"
#include "lockstep/train/loss_function.h"

namespace lockstep::python {

// A loss of nn/loss.h: what Python calls, and what a Trainer takes.
struct HeldLoss {
  std::string name;
  std::function<Tensor(const Tensor&, const Tensor&, const Tensor&)> call;
  train::LossFunction function;
};

// Of lockstep.nn's losses, of a Block, or of any callable of the outputs and then the labels.
train::LossFunction to_loss(const py::object& loss, const py::object& classes);

}  // namespace lockstep::python
