// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <latch>
#include <thread>

#include "lockstep/graph/differentiate.h"
#include "lockstep/graph/executable.h"
#include "lockstep/ops/ops.h"
#include "tests/ops/calls.h"
#include "tests/ops/check_cases.h"

namespace lockstep {
namespace {

constexpr int kThreads = 4;
constexpr int kRuns = 3;

using testing::random_floats;
using testing::Tensors;

// A training step's work in small: convolution, pooling, a dense layer and a loss.
Tensors small_cifar_cnn(const Tensors& in) {
  Tensor y = relu(conv(in[0], in[1], in[2], {.padding = {1}}));
  y = max_pool(y, {.kernel = {2}});
  y = relu(conv(y, in[3], {}, {.padding = {1}}));
  const Tensor logits = dense(flatten(avg_pool(y, {.kernel = {2}})), in[4], in[5]);
  return {mean(square(softmax(logits)))};
}

Tensors small_cifar_inputs() {
  return {random_floats({4, 3, 16, 16}, 1), random_floats({16, 3, 3, 3}, 2),
          random_floats({16}, 3),           random_floats({32, 16, 3, 3}, 4),
          random_floats({10, 512}, 5),      random_floats({10}, 6)};
}

Graph small_cifar_graph() {
  Infos infos;
  for (const Tensor& input : small_cifar_inputs()) infos.push_back(input.info());
  return differentiate(trace(small_cifar_cnn, infos), 0, {1, 2, 3, 4, 5});
}

void expect_same_bits(const Tensors& got, const Tensors& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_EQ(testing::bit_difference(got[i], want[i]), "") << "output " << i;
}

// Runs body(0) to body(kThreads - 1) at once; all wait until the last is there.
template <class F>
void run_together(F&& body) {
  std::latch start(kThreads);
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      body(static_cast<std::size_t>(t));
    });
}

TEST(ExecutableThreads, ClonesOnFourThreadsGiveTheBitsOfOne) {
  const Tensors inputs = small_cifar_inputs();
  Executable single = Executable::compile(small_cifar_graph());
  const Tensors want = single.run(inputs);
  std::vector<Executable> clones;
  for (int t = 0; t < kThreads; ++t) clones.push_back(single.clone());
  std::vector<Tensors> got(kThreads * kRuns);
  run_together([&](std::size_t t) {
    for (std::size_t r = 0; r < kRuns; ++r) got[t * kRuns + r] = clones[t].run(inputs);
  });
  for (const Tensors& outputs : got) expect_same_bits(outputs, want);
}

TEST(ExecutableThreads, EachThreadMayTraceCompileAndRunItsOwn) {
  const Tensors inputs = small_cifar_inputs();
  const Tensors want = Executable::compile(small_cifar_graph()).run(inputs);
  std::vector<Tensors> got(kThreads);
  run_together(
      [&](std::size_t t) { got[t] = Executable::compile(small_cifar_graph()).run(inputs); });
  for (const Tensors& outputs : got) expect_same_bits(outputs, want);
}

TEST(ExecutableThreads, EagerOpsOnFourThreadsGiveTheBitsOfOne) {
  const Tensors inputs = small_cifar_inputs();
  const Tensors want = small_cifar_cnn(inputs);
  std::vector<Tensors> got(kThreads);
  run_together([&](std::size_t t) { got[t] = small_cifar_cnn(inputs); });
  for (const Tensors& outputs : got) expect_same_bits(outputs, want);
}

}  // namespace
}  // namespace lockstep
