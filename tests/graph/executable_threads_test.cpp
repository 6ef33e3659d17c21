// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <latch>
#include <optional>
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

void expect_bits(const Tensors& got, const Tensors& want) {
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
  for (const Tensors& outputs : got) expect_bits(outputs, want);
}

TEST(ExecutableThreads, EachThreadMayTraceCompileAndRunItsOwn) {
  const Tensors inputs = small_cifar_inputs();
  const Tensors want = Executable::compile(small_cifar_graph()).run(inputs);
  std::vector<Tensors> got(kThreads);
  run_together(
      [&](std::size_t t) { got[t] = Executable::compile(small_cifar_graph()).run(inputs); });
  for (const Tensors& outputs : got) expect_bits(outputs, want);
}

TEST(ExecutableThreads, EagerOpsOnFourThreadsGiveTheBitsOfOne) {
  const Tensors inputs = small_cifar_inputs();
  const Tensors want = small_cifar_cnn(inputs);
  std::vector<Tensors> got(kThreads);
  run_together([&](std::size_t t) { got[t] = small_cifar_cnn(inputs); });
  for (const Tensors& outputs : got) expect_bits(outputs, want);
}

// A weight of which the prologue makes a band, by its upper triangle; where `twice`, the upper
// triangle is made once more.
Graph banded(std::int64_t rows, std::int64_t size, bool twice) {
  return trace(
      [&](const Tensors& in) {
        Tensors outputs{matmul(in[1], tril(triu(in[0]), 5))};
        if (twice) outputs.push_back(matmul(in[1], triu(in[0])));
        return outputs;
      },
      {{{size, size}, DType::float32, {}}, {{rows, size}, DType::float32, {}}});
}

TEST(ExecutableThreads, WhatTwoPartsMakeAlikeIsMadeAndCountedOnce) {
  const auto compile = [](bool twice) {
    return Executable::compile(banded(1, 64, twice),
                               {.simplify = false, .fuse = false, .states = {0}});
  };
  const Executable once = compile(false);
  Executable twice = compile(true);
  EXPECT_EQ(once.refresh_parts(), 1U);
  EXPECT_EQ(twice.refresh_parts(), 1U);
  EXPECT_EQ(twice.state_bytes(), once.state_bytes());
  const Tensor weight = random_floats({64, 64}, 1), x = random_floats({1, 64}, 2);
  twice.set_state(0, weight);
  const Tensors got = twice.run({x});
  expect_bits(got, {matmul(x, tril(triu(weight), 5)), matmul(x, triu(weight))});
}

TEST(ExecutableThreads, ClonesForSeveralShapesDeriveTogether) {
  constexpr std::int64_t kSize = 256;
  std::vector<Executable> shapes, clones;
  for (std::int64_t t = 0; t < kThreads; ++t) {
    const Graph graph = banded(t + 1, kSize, false);
    shapes.push_back(t == 0 ? Executable::compile(graph, {.states = {0}})
                            : Executable::compile(graph, {.states = {0}}, shapes[0]));
    clones.push_back(shapes.back().clone());
  }
  for (int round = 1; round <= 100; ++round) {
    shapes[0].set_state(0, Tensor::full({kSize, kSize}, round));
    std::vector<Tensors> got(kThreads);
    run_together([&](std::size_t t) {
      got[t] = clones[t].run({Tensor::full({static_cast<std::int64_t>(t) + 1, kSize}, 1.0)});
    });
    for (const Tensors& outputs : got) {
      const std::vector<float> sums = outputs[0].to_vector<float>();
      for (std::size_t j = 5; j + 1 < kSize; ++j)
        ASSERT_EQ(sums[j], static_cast<float>(6 * round)) << "round " << round;
    }
  }
}

// Rows times many captured matrices, of each of which the compiler keeps one copy for all shapes.
Tensor times_all(Tensor x, const Tensors& matrices) {
  for (const Tensor& matrix : matrices) x = matmul(x, matrix);
  return x;
}

TEST(ExecutableThreads, ThreadsMayCompileLikeOneExecutableAtOnce) {
  constexpr std::int64_t kSize = 16;
  const auto rows_of = [](std::size_t t) { return static_cast<std::int64_t>(t) + 1; };
  const auto compile = [&](std::size_t t, const Tensors& matrices, const Executable* like) {
    const Graph graph =
        trace([&](const Tensors& in) { return Tensors{times_all(in[0], matrices)}; },
              {{{rows_of(t), kSize}, DType::float32, {}}});
    return like == nullptr ? Executable::compile(graph) : Executable::compile(graph, {}, *like);
  };
  std::vector<Tensors> matrices(kThreads);
  for (std::size_t t = 0; t < kThreads; ++t)
    for (std::uint64_t i = 0; i < 64; ++i)
      matrices[t].push_back(random_floats({kSize, kSize}, 100 * t + i, -0.3, 0.3));
  const Executable first = compile(0, matrices[0], nullptr);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::optional<Executable>> made(kThreads);
    run_together([&](std::size_t t) { made[t] = compile(t, matrices[t], &first); });
    for (std::size_t t = 0; t < kThreads; ++t) {
      const Tensor x = random_floats({rows_of(t), kSize}, 3);
      expect_bits(made[t]->run({x}), {times_all(x, matrices[t])});
    }
  }
}

// The first product is delivered while the second one is still to come.
Graph two_products(std::int64_t rows) {
  const TensorInfo weight{{64, 64}, DType::float32, {}};
  return trace(
      [](const Tensors& in) {
        const Tensor y = matmul(in[2], in[0]);
        return Tensors{y, matmul(tanh(y), in[1])};
      },
      {weight, weight, {{rows, 64}, DType::float32, {}}});
}

TEST(ExecutableThreads, CompilingALargerOneLeavesARunThatIsUnderWayItsMemory) {
  Executable small =
      Executable::compile(two_products(64), {.states = {0, 1}, .deliveries = {{0, 0}}});
  const Tensor a = random_floats({64, 64}, 1, -0.1, 0.1), b = random_floats({64, 64}, 2);
  small.set_state(0, a);
  small.set_state(1, b);
  const Tensor x = random_floats({64, 64}, 3), y = Tensor::empty({64, 64});
  small.begin({x}, {y});
  ASSERT_TRUE(small.go_on({}));
  Executable large = Executable::compile(two_products(4096), {.states = {0, 1}}, small);
  EXPECT_GT(large.arena_bytes(), small.arena_bytes());
  while (small.go_on({})) continue;
  const Tensor want = matmul(tanh(matmul(x, a)), b);
  expect_bits({y}, {want});
  const Tensor rows = random_floats({4096, 64}, 4);
  expect_bits(large.run({rows}), {matmul(rows, a), matmul(tanh(matmul(rows, a)), b)});
}

}  // namespace
}  // namespace lockstep
