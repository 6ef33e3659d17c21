// SPDX-License-Identifier: Apache-2.0
#include "lockstep/graph/trace.h"

#include "lockstep/autograd/autograd.h"
#include "lockstep/graph/compiled_function.h"
#include "lockstep/graph/differentiate.h"
#include "lockstep/graph/executable.h"
#include "lockstep/ops/ops.h"
#include "tests/graph/graphs.h"
#include "tests/message.h"

namespace lockstep::testing {
namespace {

using Tensors = std::vector<Tensor>;

TEST(Trace, RecordsWhatTheFunctionDoes) {
  const Graph graph = trace([](const Tensors& in) { return Tensors{add(exp(in[0]), in[1])}; },
                            {floats({2}), floats({2})}, {"a", "b"});
  EXPECT_EQ(graph.str(),
            "%0 = input 'a' : float32[2]\n"
            "%1 = input 'b' : float32[2]\n"
            "%2 = exp(%0) : float32[2]\n"
            "%3 = add(%2, %1) : float32[2]\n"
            "return %3\n");
}

TEST(Trace, KeepsATensorWithContentsAsOneConstant) {
  const Tensor seven = Tensor::full({2}, 7.0);
  const Graph graph =
      trace([&](const Tensors& in) { return Tensors{add(multiply(in[0], seven), seven)}; },
            {floats({2})});
  const auto constants = std::count_if(graph.nodes().begin(), graph.nodes().end(),
                                       [](const Node& node) { return node.is_constant(); });
  EXPECT_EQ(constants, 1);
}

TEST(Trace, HasNoDataToRead) {
  EXPECT_EQ(message_of([] {
              trace([](const Tensors& in) { return Tensors{full({1}, in[0].item())}; },
                    {floats({1})});
            }),
            "tensor: float32[1] stands for a graph value and has no data while tracing");
}

TEST(Trace, RefusesATensorOfAnotherRecording) {
  Tensor escaped;
  trace(
      [&](const Tensors& in) {
        escaped = in[0];
        return in;
      },
      {floats({2})});
  EXPECT_NE(message_of([&] { relu(escaped); }), "");
  EXPECT_EQ(message_of([&] {
              trace([&](const Tensors& in) { return Tensors{add(in[0], escaped)}; }, {floats({2})});
            }),
            "trace: a tensor of another recording was used (float32[2])");
}

TEST(Differentiate, EqualsTheTape) {
  const TensorFunction function = [](const Tensors& in) {
    return Tensors{sum(multiply(tanh(matmul(in[0], in[1])), in[2]))};
  };
  const Graph graph = trace(function, {floats({3, 4}), floats({4, 5}), floats({3, 5})});
  const Graph backward = differentiate(graph, 0, {0, 1, 2});
  const Tensors inputs = random_inputs(graph);
  const Tensors got = interpret(backward, inputs);
  for (const Tensor& input : inputs) autograd::attach_grad(input);
  Tensor loss;
  {
    const autograd::RecordScope record;
    loss = function(inputs)[0];
  }
  autograd::backward(loss);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    expect_close(got[1 + i], autograd::gradient(inputs[i]), 1e-6);
}

TEST(Differentiate, GivesZerosForAnInputThatTheHeadDoesNotReach) {
  const Graph graph =
      trace([](const Tensors& in) { return Tensors{sum(in[0])}; }, {floats({2}), floats({3})});
  const Graph backward = differentiate(graph, 0, {1});
  const Tensors got = interpret(backward, random_inputs(graph));
  EXPECT_EQ(got[1].to_vector<float>(), (std::vector<float>{0, 0, 0}));
}

TEST(Differentiate, CanBeDoneTwice) {
  const Graph graph =
      trace([](const Tensors& in) { return Tensors{sum(power(in[0], 3.0))}; }, {floats({1})});
  const Graph first = differentiate(graph, 0, {0});
  const Graph second = differentiate(first, 1, {0});
  const Tensor two = Tensor::full({1}, 2.0);
  const Tensors got = interpret(second, {&two, 1});
  EXPECT_FLOAT_EQ(got[1].to_vector<float>()[0], 12.0f);
  EXPECT_FLOAT_EQ(got[2].to_vector<float>()[0], 12.0f);
}

TEST(Differentiate, RefusesOutputsAndInputsThatAreNotThere) {
  const Graph graph = trace([](const Tensors& in) { return in; }, {floats({1})});
  EXPECT_EQ(message_of([&] { differentiate(graph, 3, {0}); }),
            "differentiate: output 3 of 1 does not exist");
  EXPECT_EQ(message_of([&] { differentiate(graph, 0, {5}); }),
            "differentiate: input 5 of 1 does not exist");
}

TEST(CompiledFunction, CompilesOnceForEachShapeAndDtype) {
  CompiledFunction function = compile([](const Tensors& in) { return Tensors{add(in[0], in[0])}; });
  const Tensor small = Tensor::full({2}, 1.0), large = Tensor::full({3}, 1.0),
               wide = Tensor::full({2}, 1.0, DType::float64);
  for (const Tensor& x : {small, large, wide, small, large})
    EXPECT_EQ(function({&x, 1})[0].to_vector<double>()[0], 2.0);
  EXPECT_EQ(function.compiled_count(), 3u);
}

TEST(CompiledFunction, HasGradientsAndCanBeTraced) {
  CompiledFunction square_it = compile([](const Tensors& in) { return Tensors{square(in[0])}; });
  const Tensor x = Tensor::full({2}, 3.0);
  autograd::attach_grad(x);
  Tensor y;
  {
    const autograd::RecordScope record;
    y = square_it({&x, 1})[0];
  }
  autograd::backward(y);
  EXPECT_EQ(autograd::gradient(x).to_vector<float>(), (std::vector<float>{6, 6}));
  const Graph graph = trace([&](const Tensors& in) { return square_it(in); }, {floats({2})});
  EXPECT_EQ(count_ops(graph, "square"), 1);
}

TEST(CompiledFunction, HasGradientsForWhatItCaptures) {
  const Tensor w = Tensor::full({2}, 3.0), x = Tensor::full({2}, 5.0);
  CompiledFunction scale = compile([&](const Tensors& in) { return Tensors{multiply(in[0], w)}; });
  autograd::attach_grad(w);
  Tensor y;
  {
    const autograd::RecordScope record;
    y = scale({&x, 1})[0];
  }
  autograd::backward(y);
  EXPECT_EQ(autograd::gradient(w).to_vector<float>(), (std::vector<float>{5, 5}));
}

TEST(Executable, ReturnsInputsConstantsAndTheSameValueTwice) {
  const Tensor seven = Tensor::full({2}, 7.0);
  const Graph graph = trace(
      [&](const Tensors& in) {
        const Tensor y = exp(in[0]);
        return Tensors{in[0], add(seven, 0.0), y, y, transpose(reshape(in[0], {1, 2})), seven};
      },
      {floats({2})});
  const Tensors inputs = random_inputs(graph);
  const Tensors expected = interpret(graph, inputs);
  const Tensors got = Executable::compile(graph).run(inputs);
  for (std::size_t i = 0; i < got.size(); ++i) expect_close(got[i], expected[i], 1e-6);
}

TEST(Executable, RefusesInputsThatItWasNotCompiledFor) {
  const Graph graph = trace([](const Tensors& in) { return Tensors{exp(in[0])}; }, {floats({2})});
  Executable executable = Executable::compile(graph);
  const Tensor wrong = Tensor::zeros({3});
  EXPECT_EQ(message_of([&] {
              executable.run({&wrong, 1});
            }),
            "executable: input 0 is float32[3], compiled for float32[2]");
  EXPECT_EQ(message_of([&] { executable.run({}); }), "executable: takes 1 inputs, got 0");
  EXPECT_EQ(message_of([&] { executable.set_state(0, wrong); }),
            "executable: input 0 is not a state");
}

}  // namespace
}  // namespace lockstep::testing
