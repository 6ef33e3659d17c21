// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/nn/layers/activation.h"

namespace lockstep::nn {

struct DenseOptions {
  std::int64_t inputs = -1;  // -1: told by the first input
  std::string activation = "";
  bool bias = true;
  bool flatten = true;  // false: on the last axis, all others are batch
  Initializer weight_init = {};
  Initializer bias_init = init::zero();
};

// activation(x weight^T + bias), weight [units, inputs].
class Dense : public Block {
 public:
  explicit Dense(std::int64_t units, DenseOptions options = {});
  Tensor forward(const Tensor& x) override;
  std::string description() const override;

 private:
  std::int64_t units_;
  DenseOptions options_;
  ActivationFunction activation_;
  Parameter weight_, bias_;
};

std::shared_ptr<Dense> dense(std::int64_t units, DenseOptions options = {});

}  // namespace lockstep::nn
