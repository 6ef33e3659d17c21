// SPDX-License-Identifier: Apache-2.0
#include "lockstep/graph/executable.h"

#include <gtest/gtest.h>

#include "lockstep/graph/compiled_function.h"
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

TEST(Executable, KeepsTheInputsOfARunWhoseHandlesAreGone) {
  Executable executable = Executable::compile(
      trace([](const std::vector<Tensor>& in) { return std::vector{multiply(in[0], 2.0)}; },
            infos_of({Tensor::zeros({64})})));
  const std::vector<Tensor> output{Tensor::zeros({64})};
  executable.begin(std::vector{full({64}, 3.0)}, output);
  const Tensor other = full({64}, 5.0);  // the pool gives freed memory to the next one
  while (executable.go_on({})) continue;
  EXPECT_EQ(output[0].to_vector<float>(), std::vector<float>(64, 6.0F));
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

// A graph of states and carries, run several times, against the interpreter in a loop.
void expect_carried(const TensorFunction& function, const std::vector<Shape>& states,
                    const std::vector<Carry>& carries, std::size_t outputs) {
  Infos infos;
  for (const Shape& shape : states) infos.push_back({shape, DType::float32, {}});
  const Graph graph = trace(function, infos);
  CompileOptions options{.carries = carries};
  std::vector<Tensor> values;
  for (std::size_t i = 0; i < states.size(); ++i) {
    options.states.push_back(i);
    values.push_back(random(states[i], i + 1));
  }
  Executable executable = Executable::compile(graph, options);
  for (std::size_t i = 0; i < states.size(); ++i) executable.set_state(i, values[i]);
  for (int run = 0; run < 3; ++run) {
    const std::vector<Tensor> expected = interpret(graph, values);
    const std::vector<Tensor> got = executable.run({});
    ASSERT_EQ(got.size(), outputs);
    std::size_t returned = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const bool carried = std::any_of(carries.begin(), carries.end(),
                                       [&](const Carry& c) { return c.output == i; });
      if (!carried) expect_close(got[returned++], expected[i]);
    }
    for (const Carry& carry : carries) values[carry.input] = expected[carry.output].copy();
    for (std::size_t i = 0; i < states.size(); ++i) expect_close(executable.state(i), values[i]);
  }
}

using Tensors = std::vector<Tensor>;

TEST(Carries, MayReadOtherWindowsOfTheStateTheyReplace) {
  expect_carried([](const Tensors& s) { return Tensors{add(s[0], flip(s[0], {0}))}; }, {{100000}},
                 {{0, 0}}, 0);
  expect_carried([](const Tensors& s) { return Tensors{subtract(s[0], slice(s[0], {0}, {1}))}; },
                 {{64, 64}}, {{0, 0}}, 0);
}

TEST(Carries, ReturnTheOldValueOfAStateThatTheyReplace) {
  expect_carried(
      [](const Tensors& s) {
        return Tensors{add(s[0], 1.0), s[0]};
      },
      {{5}}, {{0, 0}}, 1);
  expect_carried(
      [](const Tensors& s) {
        return Tensors{multiply(s[0], 0.0), reshape(s[0], {3, 2})};
      },
      {{6}}, {{0, 0}}, 1);
}

TEST(Carries, SwapTwoStates) {
  expect_carried(
      [](const Tensors& s) {
        return Tensors{s[1], s[0]};
      },
      {{4}, {4}}, {{0, 0}, {1, 1}}, 0);
}

TEST(Carries, SendOneValueIntoTwoStates) {
  expect_carried([](const Tensors& s) { return Tensors{add(s[0], s[1])}; }, {{4}, {4}},
                 {{0, 0}, {1, 0}}, 0);
}

TEST(Carries, AreRefusedWhenTheyMeetOrDoNotFit) {
  const Graph graph = trace(
      [](const Tensors& s) {
        return Tensors{s[0], s[0], s[1]};
      },
      {{{4}, DType::float32, {}}, {{5}, DType::float32, {}}});
  EXPECT_THROW(Executable::compile(graph, {.states = {0}, .carries = {{0, 0}, {0, 1}}}),
               InvalidArgument);
  EXPECT_THROW(Executable::compile(graph, {.states = {0}, .carries = {{0, 2}}}), InvalidArgument);
}

TEST(Carries, KeepAnExecutableFromBeingCloned) {
  const Graph graph =
      trace([](const Tensors& s) { return Tensors{add(s[0], 1.0)}; }, {{{4}, DType::float32, {}}});
  EXPECT_NO_THROW(Executable::compile(graph, {.states = {0}}).clone());
  EXPECT_THROW(Executable::compile(graph, {.states = {0}, .carries = {{0, 0}}}).clone(),
               InvalidArgument);
}

// 20 channels are padded to 32: what stands in the padding must not leak into the next convolution.
TEST(Executable, KeepsThePaddingOfBlockedLayoutsZero) {
  const Tensors inputs{random({2, 8, 6, 6}, 1), random({20, 8, 3, 3}, 2),
                       random({20, 20, 3, 3}, 3)};
  const std::vector<Tensor (*)(const Tensor&)> functions{
      [](const Tensor& y) { return add(y, 1.0); },
      [](const Tensor& y) { return sqrt(maximum(add(y, 50.0), 0.5)); },
      [](const Tensor& y) { return multiply(subtract(1.0, y), 2.0); },
      [](const Tensor& y) { return exp(multiply(y, 0.01)); }};
  for (const auto& function : functions) {
    const Graph graph =
        trace([&](const Tensors& in) { return Tensors{conv(function(conv(in[0], in[1])), in[2])}; },
              infos_of(inputs));
    expect_compiled_equals_interpreted(graph, inputs);
  }
}

TEST(Executable, DoesNotWriteOverAnInputThatIsBroadcast) {
  const Tensors inputs{random({64}, 1), random({4, 64}, 2)};
  const Graph graph = trace(
      [](const Tensors& in) { return Tensors{sum(cast(less(exp(in[0]), in[1]), DType::float32))}; },
      infos_of(inputs));
  expect_compiled_equals_interpreted(graph, inputs);
}

TEST(Executable, RefusesOutputsThatAreNotMemoryOfTheirOwn) {
  const Graph graph = trace([](const Tensors& in) { return Tensors{add(in[0], 1.0)}; },
                            {{{2, 3}, DType::float32, {}}});
  Executable executable = Executable::compile(graph);
  const Tensor x = Tensor::zeros({2, 3});
  const Tensor turned = transpose(Tensor::zeros({3, 2}));
  EXPECT_THROW(executable.run_into({&x, 1}, {&turned, 1}), InvalidArgument);
  EXPECT_THROW(executable.run_into({&x, 1}, {&x, 1}), InvalidArgument);
}

TEST(CompiledFunction, KeepsWhatACapturedTensorHeldWhenItWasTraced) {
  const Tensor w = Tensor::full({2}, 1.0), x = Tensor::zeros({2});
  CompiledFunction function = compile([w](const Tensors& in) {
    return Tensors{add(in[0], w), add(in[0], multiply(w, 2.0))};
  });
  function({&x, 1});
  w.assign(Tensor::full({2}, 10.0));
  EXPECT_EQ(function({&x, 1})[0].to_vector<float>()[0], 1.0f);
  EXPECT_EQ(function({&x, 1})[1].to_vector<float>()[0], 2.0f);
}

TEST(CompiledFunction, TakesABracedList) {
  CompiledFunction function = compile([](const Tensors& in) { return Tensors{in[0] - in[1]}; });
  const Tensor x = Tensor::scalar(5.0), y = Tensor::scalar(3.0);
  EXPECT_EQ(function({x, y})[0].item(), 2.0);
  EXPECT_EQ(function({y, x})[0].item(), -2.0);
}

TEST(CompiledFunction, DrawsAnewInEachCallAndTheSameUnderTheSameKey) {
  CompiledFunction function =
      compile([](const Tensors& in) { return Tensors{dropout(in[0], 0.5)}; });
  const Tensor x = Tensor::full({256}, 1.0);
  const auto two_calls = [&](std::uint64_t seed) {
    const RandomScope scope(random_key(seed));
    const std::vector<float> first = function({&x, 1})[0].to_vector<float>();
    return std::pair(first, function({&x, 1})[0].to_vector<float>());
  };
  const auto [a, b] = two_calls(1);
  EXPECT_NE(a, b);
  EXPECT_EQ(two_calls(1), std::pair(a, b));
  EXPECT_NE(two_calls(2).first, a);
}

}  // namespace
}  // namespace lockstep
