// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lockstep/ops/op.h"

namespace lockstep::testing {

// One row of the op table: the op on given inputs, and what must come out. Floating inputs are
// float64; the conformance test converts them to each dtype of `dtypes`, makes them non-contiguous,
// runs the op eagerly, taped and compiled, and checks gradients against finite differences.
struct OpCase {
  std::string op;
  std::string label;  // "broadcast", "size 0", ...
  std::vector<Tensor> inputs;
  Attrs attrs = {};
  // Naive, on float64 (or integer) inputs that are dense. Same number of outputs as the op; an
  // undefined output is not compared.
  std::function<std::vector<Tensor>(const std::vector<Tensor>&)> reference = nullptr;
  DTypeSet dtypes = kFloatTypes;  // for floating inputs
  bool check_gradient = true;     // for ops that are differentiable
  double tolerance = 1e-5;        // relative, float32; float64 uses 1e-10, halves 2e-2
  double gradient_tolerance = 1e-5;
};

// Deterministic values in [low, high), float64.
Tensor random_tensor(const Shape& shape, std::uint64_t seed, double low = -1.0, double high = 1.0);
// Deterministic int64 values in [low, high).
Tensor random_indices(const Shape& shape, std::uint64_t seed, std::int64_t low, std::int64_t high);

std::vector<OpCase> elementwise_cases();
std::vector<OpCase> unary_cases();
std::vector<OpCase> math_cases();
std::vector<OpCase> reduce_cases();
std::vector<OpCase> matmul_cases();
std::vector<OpCase> linalg_cases();
std::vector<OpCase> conv_cases();
std::vector<OpCase> pool_cases();
std::vector<OpCase> resample_cases();
std::vector<OpCase> norm_cases();
std::vector<OpCase> dropout_cases();
std::vector<OpCase> softmax_cases();
std::vector<OpCase> loss_cases();
std::vector<OpCase> ctc_cases();
std::vector<OpCase> index_cases();
std::vector<OpCase> shape_cases();
std::vector<OpCase> matrix_parts_cases();
std::vector<OpCase> sort_cases();
std::vector<OpCase> rnn_cases();
std::vector<OpCase> attention_cases();
std::vector<OpCase> random_cases();
std::vector<OpCase> create_cases();
std::vector<OpCase> update_cases();
std::vector<OpCase> fused_cases();

}  // namespace lockstep::testing
