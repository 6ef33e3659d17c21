// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/nn/block.h"

namespace lockstep::nn::detail {

// Sees the calls of blocks that this thread makes while it lives: how summary() learns what each
// layer gives.
class CallObserver {
 public:
  CallObserver();
  virtual ~CallObserver();
  CallObserver(const CallObserver&) = delete;
  CallObserver& operator=(const CallObserver&) = delete;

  virtual void begin(const Block& block) = 0;
  virtual void end(const Block& block, const std::vector<Tensor>& outputs) = 0;

  // The innermost of this thread, or null.
  static CallObserver* current();

 protected:
  // The one that this one hides while it lives, or null.
  CallObserver* outer() const { return outer_; }

 private:
  CallObserver* outer_;
};

}  // namespace lockstep::nn::detail
