// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/graph/executable.h"
#include "lockstep/nn/models/recipes.h"

namespace lockstep {

struct StepOptions {
  std::int64_t batch = 0;  // 0: the recipe's own
  std::uint64_t seed = 1;
  double learning_rate = 0.01;
  double momentum = 0.9;
  CompileOptions compile = {};
};

// A recipe's forward pass and loss as a graph: inputs are data, labels, then the parameters.
struct TracedRecipe {
  Graph graph;
  std::vector<std::string> names;  // of the parameters, in input order
  std::vector<Init> inits;
};
TracedRecipe trace_recipe(const Recipe& recipe, std::int64_t batch);

// Values for a parameter: a function of the seed and the parameter's place among the others.
Tensor initial_value(const Init& init, const Shape& shape, std::uint64_t seed, std::size_t place);

// Forward, loss, backward and an SGD update with momentum as one executable, with the parameters
// inside it.
class CompiledStep {
 public:
  CompiledStep(const Recipe& recipe, const StepOptions& options);

  // One step on one batch; returns the loss before the update.
  double run(const Tensor& data, const Tensor& labels);
  // The same without reading the loss; nothing is allocated.
  void run_blind(const Tensor& data, const Tensor& labels);

  const std::vector<std::string>& names() const { return names_; }
  void set_parameter(std::size_t index, const Tensor& value);
  Tensor parameter(std::size_t index) const;
  // Generated data and labels that fit.
  Tensor random_data(std::uint64_t seed) const;
  Tensor random_labels(std::uint64_t seed) const;

  std::int64_t batch() const { return batch_; }
  double flops_per_sample() const { return flops_per_sample_; }
  std::size_t parameter_bytes() const { return parameter_bytes_; }
  // What a step needs besides the parameters: activations, gradients, optimiser state, copies.
  std::size_t step_bytes() const;
  const Executable& executable() const { return *executable_; }
  // Where the time of a step goes.
  std::vector<Executable::StepTime> profile(const Tensor& data, const Tensor& labels);

 private:
  const Recipe& recipe_;
  std::int64_t batch_;
  std::vector<std::string> names_;
  std::unique_ptr<Executable> executable_;
  Tensor rate_, loss_;
  double flops_per_sample_ = 0;
  std::size_t parameter_bytes_ = 0;
};

}  // namespace lockstep
