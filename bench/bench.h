// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep::bench {

struct BenchOptions {
  bool json = false;                    // one JSON object a line instead of a table
  bool quick = false;                   // fewer and shorter windows: a look, not a measurement
  bool peer = true;                     // run PyTorch beside, where it is installed
  bool bf16 = false;                    // bench step: also with bfloat16 compute
  std::vector<std::string> names = {};  // models or ops; none: all
};

// Each prints its results on standard output as they come. Throws NotFound for an unknown name.
void run_step(const BenchOptions& options);
void run_train(const BenchOptions& options);
void run_ops(const BenchOptions& options);
void run_eager(const BenchOptions& options);
// Nets of 1 to 3,200 layers: calls, and building and storing a training step.
void run_deep(const BenchOptions& options);
// Steps with tables of up to 1,000,000 rows of which 2,000 are looked up, with whole gradients and
// with sparse ones.
void run_embedding(const BenchOptions& options);

}  // namespace lockstep::bench
