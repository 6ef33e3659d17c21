// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/tensor/tensor.h"

namespace lockstep {

// How a parameter starts: uniform in [-bound, bound), or everywhere `value` when bound is 0.
struct Init {
  double bound = 0.0;
  double value = 0.0;
};

// Where a model gets its parameters from. A model asks for each one by name, always in the same
// order; whoever runs the model decides what comes back: contents, or a graph input.
class ParameterSource {
 public:
  virtual ~ParameterSource() = default;
  virtual Tensor get(const std::string& name, const Shape& shape, const Init& init) = 0;
};

// A model that `lockstep train` and `lockstep bench` know by name.
struct Recipe {
  std::string_view name;
  std::int64_t batch;  // what its benchmark uses
  Shape sample_shape;  // of one input
  DType input_dtype;
  std::int64_t input_range;  // tokens: vocabulary; images: 0
  Shape label_shape;         // of one sample's labels; scalar for one class a sample
  std::int64_t classes;
  // Logits of a batch.
  Tensor (*forward)(ParameterSource& parameters, const Tensor& x);
};

const std::vector<Recipe>& recipes();
// Throws NotFound with the names there are.
const Recipe& find_recipe(std::string_view name);

// Mean cross-entropy over samples, and over positions where a sample has several.
Tensor recipe_loss(const Recipe& recipe, const Tensor& logits, const Tensor& labels);

}  // namespace lockstep
