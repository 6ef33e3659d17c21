// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <functional>

#include "lockstep/autograd/autograd.h"
#include "lockstep/graph/compiled_function.h"
#include "lockstep/graph/differentiate.h"
#include "lockstep/graph/executable.h"
#include "lockstep/graph/symbol.h"
#include "lockstep/nn/functional.h"
#include "lockstep/ops/ops.h"
#include "tests/message.h"

namespace lockstep {
namespace {

using autograd::PauseScope;
using autograd::RecordScope;
using Tensors = std::vector<Tensor>;

struct Reverse : autograd::Function {
  Tensors forward(std::span<const Tensor> in) override { return {in[0]}; }
  Tensors backward(std::span<const Tensor> grads) override { return {-grads[0]}; }
};

Tensor reverse(const Tensor& x) { return autograd::call(std::make_shared<Reverse>(), {x})[0]; }

// A graph that was traced without a tape is cut in the same places.
std::vector<float> gradient_of_graph(const TensorFunction& function, const Tensor& x) {
  const Graph graph = differentiate(trace(function, {x.info()}), 0, {0});
  return Executable::compile(graph).run({x})[1].to_vector<float>();
}

std::vector<float> gradient_on_tape(const TensorFunction& function, const Tensor& x) {
  const Tensor leaf = x.copy();
  autograd::attach_grad(leaf);
  const RecordScope record;
  autograd::backward(function({leaf})[0]);
  return autograd::gradient(leaf).to_vector<float>();
}

TEST(TracedAutograd, DifferentiatedGraphAgreesWithTheTape) {
  const Tensor x = reshape(linspace(-0.9, 1.1, 6), {2, 3});
  const std::vector<std::pair<const char*, std::function<Tensor(const Tensor&)>>> functions{
      {"detach", [](const Tensor& t) { return t * exp(t).detach(); }},
      {"detached input", [](const Tensor& t) { return t * t.detach(); }},
      {"pause",
       [](const Tensor& t) {
         Tensor y;
         {
           const PauseScope pause;
           y = exp(tanh(t));
         }
         return t * y;
       }},
      {"record in a pause",
       [](const Tensor& t) {
         const PauseScope pause;
         const Tensor unseen = exp(t);
         const RecordScope record;
         return tanh(t) * unseen;
       }},
      {"leaf",
       [](const Tensor& t) {
         const Tensor y = exp(t), z = y * t;
         autograd::attach_grad(y);
         return y * t + z;
       }},
      {"leaf that is the input",
       [](const Tensor& t) {
         const RecordScope record;
         autograd::attach_grad(t);
         const Tensor slope = autograd::grad({sum(exp(t) * t)}, {t}, {}, true)[0];
         return slope * t;
       }},
      {"gradient as a number",
       [](const Tensor& t) {
         const RecordScope record;
         autograd::attach_grad(t);
         return exp(t) * t + autograd::grad({sum(exp(t) * t)}, {t})[0] * t;
       }},
      {"sign", [](const Tensor& t) { return sign(t); }},
      {"floor", [](const Tensor& t) { return floor(t * 3.0); }},
      {"round", [](const Tensor& t) { return round(t * 3.0); }},
      {"ceil", [](const Tensor& t) { return ceil(t * 3.0); }},
      {"comparison", [](const Tensor& t) { return cast(t > 0.1, DType::float32); }},
      {"equal", [](const Tensor& t) { return cast(equal(t, t), DType::float32); }},
      {"argmax", [](const Tensor& t) { return cast(argmax(t, -1), DType::float32); }},
      {"cast", [](const Tensor& t) { return cast(cast(t, DType::int32), DType::float32); }},
      {"one_hot", [](const Tensor& t) { return one_hot(cast(argmax(t, -1), DType::int64), 3); }},
      {"mixed", [](const Tensor& t) { return where(t > 0.0, sign(t), t * round(t)); }},
      {"indices of topk", [](const Tensor& t) { return cast(argsort(t), DType::float32) * t; }},
  };
  for (const auto& [name, function] : functions) {
    SCOPED_TRACE(name);
    const TensorFunction summed = [&f = function](const Tensors& in) -> Tensors {
      return {sum(f(in[0]))};
    };
    EXPECT_EQ(gradient_on_tape(summed, x), gradient_of_graph(summed, x));
  }
}

TEST(TracedAutograd, GraphCannotDifferentiateAFunction) {
  const TensorFunction function = [](const Tensors& in) -> Tensors {
    return {sum(reverse(in[0]))};
  };
  const Tensor x = ones({2});
  EXPECT_EQ(testing::message_of([&] { gradient_of_graph(function, x); }),
            "differentiate: float32[2] comes from an autograd::Function, whose gradient only the "
            "tape knows: call autograd::grad inside of what is traced");
  const Graph graph = trace(function, {x.info()});
  EXPECT_EQ(testing::message_of([&] {
              const Tensor leaf = x.copy();
              autograd::attach_grad(leaf);
              const RecordScope record;
              interpret(graph, std::vector{leaf});
            }),
            "stop_gradient: a graph that holds the result of an autograd::Function has no "
            "gradient");
  const TensorFunction itself = [&](const Tensors& in) -> Tensors {
    autograd::attach_grad(in[0]);
    const RecordScope record;
    return autograd::grad({function(in)[0]}, {in[0]});
  };
  EXPECT_EQ(Executable::compile(trace(itself, {x.info()})).run({x})[0].to_vector<float>(),
            (std::vector<float>{-1, -1}));
}

TEST(TracedAutograd, CutsStayInASymbolsFile) {
  const TensorFunction function = [](const Tensors& in) -> Tensors {
    return {sum(in[0] * exp(in[0]).detach())};
  };
  const Tensor x = linspace(0.5, 1.5, 3);
  const Symbol symbol = Symbol::from_graph(trace(function, {x.info()}, {"x"}));
  BoundSymbol bound = Symbol::from_json(symbol.to_json()).bind({{"x", x.info()}}, {"x"});
  EXPECT_EQ(bound.run({{"x", x}}).gradients[0].to_vector<float>(), exp(x).to_vector<float>());
}

TEST(TracedAutograd, CutsCostNothingOnceCompiled) {
  const TensorFunction cut = [](const Tensors& in) -> Tensors {
    const PauseScope pause;
    return {exp(tanh(in[0]) * in[0].detach())};
  };
  const TensorFunction plain = [](const Tensors& in) -> Tensors {
    return {exp(tanh(in[0]) * in[0])};
  };
  const Infos infos{{{8}, DType::float32, {}}};
  EXPECT_EQ(Executable::compile(trace(cut, infos)).str(),
            Executable::compile(trace(plain, infos)).str());
}

TEST(TracedAutograd, CompiledFunctionFollowsTheMode) {
  auto function = compile([](const Tensors& in) -> Tensors { return {nn::dropout(in[0], 0.5)}; });
  const Tensor x = ones({64});
  const RandomScope draws(random_key(1));
  EXPECT_EQ(sum(function({x})[0]).item(), 64.0);
  const autograd::ModeScope training(true);
  EXPECT_NE(sum(function({x})[0]).item(), 64.0);
}

}  // namespace
}  // namespace lockstep
