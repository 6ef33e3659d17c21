// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "lockstep/nn/block.h"

namespace lockstep::nn {

// While it lives, `on_begin` is called before each call of a block that this thread makes.
class CallWatch {
 public:
  explicit CallWatch(std::function<void(const Block&)> on_begin);
  ~CallWatch();
  CallWatch(const CallWatch&) = delete;
  CallWatch& operator=(const CallWatch&) = delete;

 private:
  class Observer;
  std::unique_ptr<Observer> observer_;
};

}  // namespace lockstep::nn
