// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::bench {

// One recipe's training step on a generated batch: forward, loss, backward, SGD with momentum.
struct StepRunner {
  virtual ~StepRunner() = default;
  virtual void step() = 0;

  std::int64_t batch = 0;
  double flops_per_sample = 0;  // of products, convolutions, attention; both gradients included
  std::size_t parameter_bytes = 0;
  std::size_t step_bytes = 0;  // planned for a step, above the parameters
};

// `dtype` is what is computed in, float32 or bfloat16; parameters are float32.
std::unique_ptr<StepRunner> make_step_runner(const std::string& model, const std::string& dtype);

std::vector<std::string> recipe_names();

// Our side of the conversation that bench/peers/step_peer.py --serve has: a process of its own, so
// that its memory can be compared.
int serve_step(const std::string& model, const std::string& dtype);

}  // namespace lockstep::bench
