// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/nn/block.h"
#include "lockstep/ops/attrs.h"

namespace lockstep::nn {

// In train mode, zeroes elements with probability p and scales the others by 1 / (1 - p). Along
// `axes` all elements share one fate: {2, 3} drops whole feature maps.
class Dropout : public Block {
 public:
  explicit Dropout(double p, Ints axes = {});
  Tensor forward(const Tensor& x) override;
  std::string description() const override;

 private:
  double p_;
  Ints axes_;
};

std::shared_ptr<Dropout> dropout(double p, Ints axes = {});

}  // namespace lockstep::nn
