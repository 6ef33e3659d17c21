// SPDX-License-Identifier: Apache-2.0
// Nanoseconds of an eager add of 16 floats: prints one JSON line for each timed window.
#include <fmt/core.h>

#include <chrono>

#include "lockstep/ops/ops.h"

namespace {

constexpr int kWindows = 15;
constexpr int kCalls = 100'000;

double window_ns(const lockstep::Tensor& a, const lockstep::Tensor& b) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) lockstep::add(a, b);
  const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
  return spent.count() / kCalls;
}

}  // namespace

int main() {
  const lockstep::Tensor a = lockstep::Tensor::full({16}, 1.5);
  const lockstep::Tensor b = lockstep::Tensor::full({16}, 2.0);
  if (lockstep::add(a, b).to_vector<float>() != std::vector<float>(16, 3.5F)) return 1;
  window_ns(a, b);
  for (int i = 0; i < kWindows; ++i) fmt::print("{{\"ns\": {:.2f}}}\n", window_ns(a, b));
}
