// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <lockstep/autograd/autograd.h>
#include <lockstep/ops/instruction_set.h>
#include <lockstep/ops/ops.h>

#include <vector>

using lockstep::Tensor;

// d/dx sum(x * x) = 2 x, and an error that names the op: enough to need every part of the library.
int main() {
  const Tensor x = Tensor::from(std::vector<float>{1, 2, 3}, {3});
  lockstep::autograd::attach_grad(x);
  {
    const lockstep::autograd::RecordScope record;
    lockstep::autograd::backward(lockstep::sum(x * x));
  }
  const std::vector<float> expected{2, 4, 6};
  if (lockstep::autograd::gradient(x).to_vector<float>() != expected) return 1;
  try {
    lockstep::add(x, Tensor::zeros({4}));
    return 2;
  } catch (const lockstep::InvalidArgument& error) {
    fmt::print("{}\n", error.what());
  }
  lockstep::matmul(Tensor::zeros({16, 16}), Tensor::zeros({16, 16}));
  fmt::print("kernels use {}\n", lockstep::instruction_set_in_use());
  return 0;
}
