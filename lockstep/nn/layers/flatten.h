// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/nn/block.h"

namespace lockstep::nn {

// [N, everything else].
class Flatten : public Block {
 public:
  Tensor forward(const Tensor& x) override;
  std::string description() const override { return "Flatten"; }
};

std::shared_ptr<Flatten> flatten();

}  // namespace lockstep::nn
