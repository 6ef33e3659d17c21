// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "lockstep/tensor/tensor.h"

namespace lockstep::nn {

// How a parameter starts: a value with a name (for summaries and configuration files) and the
// function that makes the contents. It draws under the RandomScope that the parameter opens.
struct Initializer {
  std::string name;
  std::function<Tensor(const Shape&)> make;
  explicit operator bool() const { return make != nullptr; }
};

namespace init {

Initializer zero();                  // all 0
Initializer one();                   // all 1
Initializer constant(double value);  // all `value`
// In [-scale, scale).
Initializer uniform(double scale = 0.07);
// Of mean 0 and deviation `sigma`.
Initializer normal(double sigma = 0.01);
// Uniform in 1 / sqrt(inputs of a unit): what a block uses when it is told nothing.
Initializer fan_in();
enum class Fan { average, in, out };
// Glorot and Bengio, 2010; uniform in sqrt(magnitude / fan), or normal.
Initializer xavier(bool gaussian = false, Fan fan = Fan::average, double magnitude = 3.0);
// He et al., 2015, for units with leaky slope `slope`.
Initializer msra_prelu(Fan fan = Fan::average, double slope = 0.25);
// Saxe et al., 2013: rows or columns are orthonormal, times `scale`.
Initializer orthogonal(double scale = 1.414);
// The weights of a transposed convolution that interpolates.
Initializer bilinear();
// Zero but for the forget gate's part (gates in the order i, f, g, o).
Initializer lstm_bias(double forget = 1.0);

}  // namespace init
}  // namespace lockstep::nn
