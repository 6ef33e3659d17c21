// SPDX-License-Identifier: Apache-2.0
#include "lockstep/graph/executable.h"

#include <gtest/gtest.h>

#include "lockstep/graph/differentiate.h"
#include "lockstep/ops/ops.h"
#include "tests/ops/op_cases.h"

namespace lockstep {
namespace {

Tensor random(const Shape& shape, std::uint64_t seed) {
  return cast(testing::random_tensor(shape, seed), DType::float32);
}

Infos infos_of(const std::vector<Tensor>& tensors) {
  Infos infos;
  for (const Tensor& tensor : tensors) infos.push_back(tensor.info());
  return infos;
}

void expect_close(const Tensor& a, const Tensor& b, double tolerance = 2e-6) {
  ASSERT_EQ(a.info(), b.info());
  const std::vector<double> x = a.to_vector<double>();
  const std::vector<double> y = b.to_vector<double>();
  double largest = 1.0;
  for (double value : y) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < x.size(); ++i)
    ASSERT_NEAR(x[i], y[i], tolerance * largest) << "element " << i;
}

void expect_compiled_equals_interpreted(const Graph& graph, const std::vector<Tensor>& inputs) {
  const std::vector<Tensor> expected = interpret(graph, inputs);
  Executable executable = Executable::compile(graph);
  for (int run = 0; run < 2; ++run) {
    const std::vector<Tensor> got = executable.run(inputs);
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) expect_close(got[i], expected[i]);
  }
}

std::vector<Tensor> mlp(const std::vector<Tensor>& in) {
  const Tensor hidden = relu(dense(in[0], in[1], in[2]));
  return {sum(square(dense(hidden, in[3])))};
}

std::vector<Tensor> mlp_inputs() {
  return {random({8, 20}, 1), random({16, 20}, 2), random({16}, 3), random({5, 16}, 4)};
}

TEST(Executable, ComputesWhatTheInterpreterComputes) {
  const Graph graph = trace(mlp, infos_of(mlp_inputs()));
  expect_compiled_equals_interpreted(graph, mlp_inputs());
  expect_compiled_equals_interpreted(differentiate(graph, 0, {1, 2, 3}), mlp_inputs());
}

std::vector<Tensor> small_cnn(const std::vector<Tensor>& in) {
  Tensor y = relu(conv(in[0], in[1], in[2], {.padding = {1}}));
  y = conv(y, in[3], {}, {.stride = {2}, .padding = {1}});
  return {sum(square(dense(relu(y), in[4])))};
}

TEST(Executable, KeepsBlockedLayoutsBetweenConvolutions) {
  const std::vector<Tensor> inputs{random({2, 3, 8, 8}, 1), random({32, 3, 3, 3}, 2),
                                   random({32}, 3), random({16, 32, 3, 3}, 4),
                                   random({10, 256}, 5)};
  const Graph graph = trace(small_cnn, infos_of(inputs));
  expect_compiled_equals_interpreted(graph, inputs);
  const Graph backward = differentiate(graph, 0, {0, 1, 2, 3, 4});
  expect_compiled_equals_interpreted(backward, inputs);
  const std::string text = Executable::compile(backward).str();
  EXPECT_NE(text.find("activation='relu'"), std::string::npos) << text;
}

TEST(Executable, ComputesInBfloat16WithinItsPrecision) {
  const std::vector<Tensor> inputs{random({2, 3, 8, 8}, 1), random({32, 3, 3, 3}, 2),
                                   random({32}, 3), random({16, 32, 3, 3}, 4),
                                   random({10, 256}, 5)};
  const Graph graph = differentiate(trace(small_cnn, infos_of(inputs)), 0, {0, 1, 2, 3, 4});
  const std::vector<Tensor> expected = interpret(graph, inputs);
  const std::vector<Tensor> got =
      Executable::compile(graph, {.compute = DType::bfloat16}).run(inputs);
  EXPECT_NEAR(got[0].item(), expected[0].item(), 0.01 * expected[0].item());
  // One relu in 400 is so near to zero that it opens or closes: sqrt(1 / 400) of a gradient's norm.
  for (std::size_t i = 1; i < got.size(); ++i)
    EXPECT_LT(norm(subtract(got[i], expected[i])).item(), 0.1 * norm(expected[i]).item()) << i;
}

TEST(Executable, RefusesToComputeInFloat16) {
  const Graph graph = trace(mlp, infos_of(mlp_inputs()));
  EXPECT_THROW(Executable::compile(graph, {.compute = DType::float16}), InvalidArgument);
}

TEST(Executable, CarriesStatesFromRunToRun) {
  const TensorFunction function = [](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{sum(in[0]), add(in[0], in[1])};
  };
  const Graph graph = trace(function, {{{3}, DType::float32, {}}, {{3}, DType::float32, {}}});
  Executable executable =
      Executable::compile(graph, {.states = {0}, .carries = {{.input = 0, .output = 1}}});
  executable.set_state(0, Tensor::full({3}, 1.0));
  const Tensor two = Tensor::full({3}, 2.0);
  EXPECT_EQ(executable.run({&two, 1})[0].item(), 3.0);
  EXPECT_EQ(executable.run({&two, 1})[0].item(), 9.0);
  EXPECT_EQ(executable.state(0).to_vector<float>(), (std::vector<float>{5, 5, 5}));
}

TEST(Executable, AllocatesNothingWhenItRunsInto) {
  const std::vector<Tensor> inputs = mlp_inputs();
  Executable executable = Executable::compile(trace(mlp, infos_of(inputs)));
  const Tensor output = Tensor::zeros({});
  executable.run_into(inputs, {&output, 1});
  const std::int64_t before = memory_stats().allocations;
  executable.run_into(inputs, {&output, 1});
  EXPECT_EQ(memory_stats().allocations, before);
}

}  // namespace
}  // namespace lockstep
