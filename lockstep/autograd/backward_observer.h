// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "lockstep/tensor/tensor.h"

namespace lockstep::autograd {

// Hears of each recorded call that this thread goes back through, while it lives: how a trace knows
// of which op of the forward pass the gradients are that it records.
class BackwardObserver {
 public:
  BackwardObserver();
  virtual ~BackwardObserver();
  BackwardObserver(const BackwardObserver&) = delete;
  BackwardObserver& operator=(const BackwardObserver&) = delete;

  // Before the call's own gradients are computed; with what the call had made.
  virtual void go_back_through(std::span<const Tensor> outputs) = 0;

  // The innermost of this thread, or null.
  static BackwardObserver* current();

 private:
  BackwardObserver* outer_;
};

}  // namespace lockstep::autograd
