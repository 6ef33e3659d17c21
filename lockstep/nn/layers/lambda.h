// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "lockstep/nn/block.h"

namespace lockstep::nn {

// A function of tensors as a block without parameters.
class Lambda : public Block {
 public:
  using Function = std::function<Tensor(const Tensor&)>;
  explicit Lambda(Function function, std::string description = "Lambda");
  Tensor forward(const Tensor& x) override;
  std::string description() const override { return description_; }

 private:
  Function function_;
  std::string description_;
};

std::shared_ptr<Lambda> lambda(Lambda::Function function, std::string description = "Lambda");

}  // namespace lockstep::nn
