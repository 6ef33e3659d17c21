// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/nn/block.h"

namespace lockstep::nn {

using ActivationFunction = Tensor (*)(const Tensor&);

// relu, sigmoid, hard_sigmoid, tanh, softrelu (softplus), softsign, gelu, gelu_tanh, silu (swish),
// leaky_relu, elu, selu; "" is the identity. Throws InvalidArgument, beginning with `layer`, that
// lists the names.
ActivationFunction find_activation(const char* layer, const std::string& name);

// One of those functions.
class Activation : public Block {
 public:
  explicit Activation(std::string name);
  Tensor forward(const Tensor& x) override;
  std::string description() const override;

 private:
  std::string name_;
  ActivationFunction function_;
};

// x, times `slope` where it is negative.
class LeakyReLU : public Block {
 public:
  explicit LeakyReLU(double slope) : slope_(slope) {}
  Tensor forward(const Tensor& x) override;
  std::string description() const override;

 private:
  double slope_;
};

// A slope that is learnt: one for all, or one for each channel (axis 1).
class PReLU : public Block {
 public:
  explicit PReLU(std::int64_t channels, const Initializer& init);
  Tensor forward(const Tensor& x) override;
  std::string description() const override;

 private:
  Parameter alpha_;
};

// x, alpha (exp(x) - 1) where it is negative.
class ELU : public Block {
 public:
  explicit ELU(double alpha) : alpha_(alpha) {}
  Tensor forward(const Tensor& x) override;
  std::string description() const override;

 private:
  double alpha_;
};

// By name: relu, sigmoid, tanh, gelu, ... (find_activation has them all).
std::shared_ptr<Activation> activation(std::string name);
std::shared_ptr<Activation> relu();  // max(x, 0)
std::shared_ptr<Activation> selu();  // ELU with the scales of Klambauer et al., 2017
std::shared_ptr<Activation> gelu();  // x times the normal distribution's P(X < x)
std::shared_ptr<Activation> silu();  // x sigmoid(x)
std::shared_ptr<LeakyReLU> leaky_relu(double slope = 0.01);
std::shared_ptr<ELU> elu(double alpha = 1.0);
std::shared_ptr<PReLU> prelu(std::int64_t channels = 1,
                             const Initializer& init = init::constant(0.25));

}  // namespace lockstep::nn
