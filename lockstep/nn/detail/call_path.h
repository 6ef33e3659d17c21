// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/nn/block.h"

namespace lockstep::nn::detail {

// While it lives, this thread calls the block: how an error says where in a model it happened.
class CallScope {
 public:
  explicit CallScope(const Block& block);
  ~CallScope();
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

  // Of the calls that have not returned yet.
  bool is_outermost() const;
  // Of the innermost call that an exception has ended, from the outermost block:
  // "encoder.2 (Dense(128, relu)): "; empty where that was the outermost itself.
  static std::string failed_path();

 private:
  int exceptions_;
};

// Why the outermost block that this thread calls knows nothing of what its forward uses: the first
// block on the way that nobody added to its caller. Empty when there is none.
std::string missing_child();

}  // namespace lockstep::nn::detail
