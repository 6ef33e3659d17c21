// SPDX-License-Identifier: Apache-2.0
#include "lockstep/autograd/autograd.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lockstep/autograd/forgetting.h"
#include "lockstep/graph/trace.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/ops.h"
#include "tests/autograd/leaf.h"
#include "tests/message.h"

namespace lockstep::autograd {
namespace {

using testing::leaf, testing::message_of;
using Values = std::vector<double>;

Tensor constant(const Values& values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}

Values values_of(const Tensor& x) { return x.to_vector<double>(); }

TEST(Autograd, GradientsReachEveryLeafThroughAChain) {
  const Tensor a = leaf({1, 2, 3});
  const Tensor b = leaf({4, 5, 6});
  Tensor y;
  {
    RecordScope record;
    y = multiply(add(a, b), b);
  }
  backward(y);
  EXPECT_EQ(values_of(gradient(a)), (Values{4, 5, 6}));
  EXPECT_EQ(values_of(gradient(b)), (Values{9, 12, 15}));
}

TEST(Autograd, NothingIsRecordedOutsideARecordScopeOrUnderPause) {
  const Tensor a = leaf({1, 2});
  EXPECT_FALSE(requires_grad(multiply(a, a)));
  RecordScope record;
  EXPECT_TRUE(requires_grad(multiply(a, a)));
  {
    PauseScope pause;
    EXPECT_FALSE(is_recording());
    EXPECT_FALSE(requires_grad(multiply(a, a)));
    RecordScope inner;
    EXPECT_TRUE(requires_grad(multiply(a, a)));
  }
  EXPECT_TRUE(is_recording());
}

TEST(Autograd, OnlyResultsOfTensorsThatWantGradientsAreRecorded) {
  const Tensor a = leaf({1, 2});
  const Tensor b = constant({3, 4});
  RecordScope record;
  EXPECT_FALSE(requires_grad(add(b, b)));
  EXPECT_TRUE(requires_grad(add(a, b)));
  EXPECT_FALSE(requires_grad(less(a, b)));
  EXPECT_FALSE(requires_grad(cast(a, DType::int32)));
  EXPECT_FALSE(requires_grad(stop_gradient(a)));
}

TEST(Autograd, ScopesSetAndRestoreTheTrainMode) {
  EXPECT_FALSE(is_training());
  {
    RecordScope record;
    EXPECT_TRUE(is_training());
    {
      PauseScope pause;
      EXPECT_FALSE(is_training());
      ModeScope train(true);
      EXPECT_TRUE(is_training());
      EXPECT_FALSE(is_recording());
    }
    RecordScope predict(false);
    EXPECT_FALSE(is_training());
    EXPECT_TRUE(is_recording());
  }
  EXPECT_FALSE(is_training());
  EXPECT_FALSE(is_recording());
}

TEST(Autograd, WriteReplacesAndAddAccumulatesOverBackwards) {
  const Tensor written = leaf({1, 1}, GradMode::write);
  const Tensor added = leaf({1, 1}, GradMode::add);
  for (int i = 0; i < 3; ++i) {
    Tensor y;
    {
      RecordScope record;
      y = add(multiply(written, 2.0), multiply(added, 2.0));
    }
    backward(y);
  }
  EXPECT_EQ(values_of(gradient(written)), (Values{2, 2}));
  EXPECT_EQ(values_of(gradient(added)), (Values{6, 6}));
  zero_gradient(added);
  EXPECT_EQ(values_of(gradient(added)), (Values{0, 0}));
}

TEST(Autograd, OffMeansNoGradient) {
  const Tensor a = leaf({1, 2});
  attach_grad(a, GradMode::off);
  EXPECT_FALSE(requires_grad(a));
  EXPECT_FALSE(gradient(a).defined());
}

TEST(Autograd, ALeafUsedSeveralTimesGetsTheSum) {
  const Tensor a = leaf({3});
  Tensor y;
  {
    RecordScope record;
    y = add(multiply(a, a), add(a, a));
  }
  backward(y);
  EXPECT_EQ(values_of(gradient(a)), (Values{8}));
}

TEST(Autograd, ManyHeadsSendTheirOwnGradients) {
  const Tensor a = leaf({1, 2});
  std::vector<Tensor> heads;
  {
    RecordScope record;
    heads = {multiply(a, 2.0), multiply(a, a)};
  }
  backward(heads, std::vector<Tensor>{constant({10, 100}), Tensor()});
  EXPECT_EQ(values_of(gradient(a)), (Values{22, 204}));
}

TEST(Autograd, ALeafCanBeAHead) {
  const Tensor a = leaf({1, 2});
  backward(a);
  EXPECT_EQ(values_of(gradient(a)), (Values{1, 1}));
}

TEST(Autograd, DetachCutsTheHistory) {
  const Tensor a = leaf({2});
  Tensor y;
  {
    RecordScope record;
    const Tensor square = multiply(a, a);
    y = multiply(square.detach(), a);
  }
  backward(y);
  EXPECT_EQ(values_of(gradient(a)), (Values{4}));
}

TEST(Autograd, AttachingToAResultMakesItALeafButKeepsTheRecordOfItsUses) {
  const Tensor a = leaf({2});
  Tensor b, before, after;
  {
    RecordScope record;
    b = multiply(a, 3.0);
    before = multiply(b, b);
    attach_grad(b);
    after = multiply(b, 5.0);
  }
  backward(before);
  EXPECT_EQ(values_of(gradient(a)), (Values{36}));
  EXPECT_FALSE(gradient(b).defined());
  backward(after);
  EXPECT_EQ(values_of(gradient(b)), (Values{5}));
}

TEST(Autograd, GradientsFlowThroughViews) {
  const Tensor a = Tensor::from(Values{1, 2, 3, 4, 5, 6}, {2, 3});
  attach_grad(a);
  Tensor y;
  {
    RecordScope record;
    y = multiply(slice(transpose(a), {1}, {3}), Tensor::from(Values{1, 10, 100, 1000}, {2, 2}));
  }
  backward(y);
  EXPECT_EQ(values_of(gradient(a)), (Values{0, 1, 100, 0, 10, 1000}));
}

TEST(Autograd, ALeafsGradientIsMemoryOfItsOwn) {
  const Tensor a = leaf({1, 2});
  const Tensor b = leaf({1, 2});
  const Tensor seed = constant({5, 6});
  Tensor y;
  {
    RecordScope record;
    y = add(a, b);
  }
  backward(std::span(&y, 1), std::span(&seed, 1));
  gradient(a).assign(Tensor::scalar(0.0, DType::float64));
  EXPECT_EQ(values_of(gradient(b)), (Values{5, 6}));
  EXPECT_EQ(values_of(seed), (Values{5, 6}));
  {
    RecordScope record;
    y = sum(a);
  }
  backward(y);
  EXPECT_TRUE(gradient(a).is_contiguous());
}

TEST(Autograd, GradReturnsGradientsAndLeavesTheLeavesAlone) {
  const Tensor a = leaf({3});
  const Tensor unused = leaf({1, 2});
  Tensor middle, y;
  {
    RecordScope record;
    middle = multiply(a, 2.0);
    y = multiply(middle, middle);
  }
  const std::vector<Tensor> variables{a, middle, unused};
  const auto grads = grad(std::span(&y, 1), variables);
  EXPECT_EQ(values_of(grads[0]), (Values{24}));
  EXPECT_EQ(values_of(grads[1]), (Values{12}));
  EXPECT_EQ(values_of(grads[2]), (Values{0, 0}));
  EXPECT_FALSE(gradient(a).defined());
}

TEST(Autograd, TakesBracedLists) {
  const Tensor a = leaf({3}), b = leaf({5});
  Tensor y, z;
  {
    RecordScope record;
    y = multiply(a, b);
    z = multiply(a, 2.0);
  }
  const auto grads = grad({y}, {a, b}, {}, false, true);
  EXPECT_EQ(values_of(grads[0]), (Values{5}));
  EXPECT_EQ(values_of(grads[1]), (Values{3}));
  const Tensor ten = Tensor::full({1}, 10.0, DType::float64);
  backward({y, z}, {{}, ten});
  EXPECT_EQ(values_of(gradient(a)), (Values{25}));
  EXPECT_EQ(values_of(gradient(b)), (Values{3}));
}

TEST(Autograd, GradientsOfGradientsOfAnyOrder) {
  const Tensor a = leaf({2});
  Tensor y;
  {
    RecordScope record;
    y = multiply(multiply(a, a), multiply(a, a));
  }
  const double expected[] = {32, 48, 48, 24, 0};
  for (double value : expected) {
    y = grad(std::span(&y, 1), std::span(&a, 1), {}, true)[0];
    EXPECT_EQ(values_of(y), (Values{value}));
    if (!requires_grad(y)) break;
  }
}

TEST(Autograd, SecondOrderGoesThroughOpsThatUseTheirOutputs) {
  const Tensor a = leaf({0.5});
  Tensor y;
  {
    RecordScope record;
    y = tanh(a);
  }
  const Tensor first = grad(std::span(&y, 1), std::span(&a, 1), {}, true)[0];
  backward(first);
  const double t = std::tanh(0.5);
  EXPECT_NEAR(values_of(gradient(a))[0], -2 * t * (1 - t * t), 1e-14);
}

std::vector<Tensor> product_and_cube(std::span<const Tensor> inputs, const Attrs&) {
  return {multiply(inputs[0], inputs[1]), multiply(inputs[0], multiply(inputs[0], inputs[0]))};
}

void run_product_and_cube(const KernelCall& call) {
  const double* a = call.inputs[0].as<double>();
  const double* b = call.inputs[1].as<double>();
  for (std::int64_t i = 0; i < call.inputs[0].numel(); ++i) {
    call.outputs[0].as<double>()[i] = a[i] * b[i];
    call.outputs[1].as<double>()[i] = a[i] * a[i] * a[i];
  }
}

Infos twice_the_first(const InferArgs& args) { return {args.inputs[0], args.inputs[0]}; }

const OpDef& composed_op() {
  static const KernelCandidate kernels[] = {{.name = "plain", .direct = run_product_and_cube}};
  static const OpDef op{.name = "composed",
                        .min_inputs = 2,
                        .max_inputs = 2,
                        .infer = twice_the_first,
                        .decompose = product_and_cube,
                        .cpu = kernels};
  return op;
}

TEST(Autograd, AnOpWithADecompositionIsDifferentiatedThroughIt) {
  const Tensor a = leaf({2});
  const Tensor b = leaf({5});
  std::vector<Tensor> y;
  {
    RecordScope record;
    const Tensor shifted = multiply(a, 2.0);  // 4
    y = lockstep::apply(composed_op(), std::vector<Tensor>{shifted, multiply(shifted, b)});
  }
  // y0 = 4 a^2 b, y1 = 8 a^3
  const std::vector<Tensor> variables{a, b};
  auto first = grad(y, variables, {}, true);
  EXPECT_EQ(values_of(first[0]), (Values{80 + 96}));
  EXPECT_EQ(values_of(first[1]), (Values{16}));
  auto second = grad(std::span(&first[0], 1), variables);
  EXPECT_EQ(values_of(second[0]), (Values{40 + 96}));
  EXPECT_EQ(values_of(second[1]), (Values{16}));
}

TEST(Autograd, ADecompositionWithOneUsedOutputNeedsNoOtherGradient) {
  const Tensor a = leaf({2});
  const Tensor b = leaf({5});
  Tensor y;
  {
    RecordScope record;
    y = lockstep::apply(composed_op(), std::vector<Tensor>{a, b})[1];
  }
  backward(y);
  EXPECT_EQ(values_of(gradient(a)), (Values{12}));
  EXPECT_EQ(values_of(gradient(b)), (Values{0}));  // y does not change with it
}

TEST(Autograd, LeavesBehindStepFunctionsGetZeros) {
  const Tensor a = leaf({2, -3}), b = leaf({5, 1});
  attach_grad(b, GradMode::add);
  for (int turn = 0; turn < 2; ++turn) {
    RecordScope record;
    backward(sum(a * b));
    backward(sum(sign(a) + cast(b > 2.0, DType::float64)));
    EXPECT_EQ(values_of(gradient(a)), (Values{0, 0}));
    EXPECT_EQ(values_of(gradient(b)), (Values{2.0 * (turn + 1), -3.0 * (turn + 1)}));
  }
}

// A mask of an earlier step, whose record is gone, is a constant.
TEST(Autograd, AStepFunctionsResultOutlivesItsRecord) {
  const Tensor a = leaf({2, -3});
  RecordScope record;
  const Tensor doubled = a * 2.0, mask = cast(doubled > 0.0, DType::float64);
  backward(sum(doubled));
  backward(sum(a * mask));
  EXPECT_EQ(values_of(gradient(a)), (Values{1, 0}));
  EXPECT_FALSE(requires_grad(argmax(a)));
}

class Cube final : public Function {
 public:
  std::vector<Tensor> forward(std::span<const Tensor> inputs) override {
    EXPECT_FALSE(is_recording());
    x_ = inputs[0];
    result_ = multiply(multiply(x_, x_), x_);
    return {result_};
  }
  std::vector<Tensor> backward(std::span<const Tensor> output_grads) override {
    return {multiply(multiply(multiply(x_, x_), 3.0), output_grads[0])};
  }

 private:
  Tensor x_, result_;
};

TEST(Autograd, AFunctionBringsItsOwnGradientAndThatCanBeDifferentiated) {
  const Tensor a = leaf({2});
  Tensor y;
  {
    RecordScope record;
    y = call(std::make_shared<Cube>(), std::span(&a, 1))[0];
    y = multiply(y, 10.0);
  }
  EXPECT_EQ(values_of(y), (Values{80}));
  const Tensor first = grad(std::span(&y, 1), std::span(&a, 1), {}, true)[0];
  EXPECT_EQ(values_of(first), (Values{120}));
  backward(first);
  EXPECT_EQ(values_of(gradient(a)), (Values{120}));
}

TEST(Autograd, ARecordDiesWithItsTensorsThoughAFunctionKeptItsResult) {
  const auto live = memory_stats().live_bytes;
  {
    const Tensor a = leaf({2});
    RecordScope record;
    const Tensor y = call(std::make_shared<Cube>(), std::span(&a, 1))[0];
    const Tensor z = multiply(tanh(y), a);
  }
  EXPECT_EQ(memory_stats().live_bytes, live);
}

TEST(Autograd, AFunctionWithAWrongGradientIsNamed) {
  struct Wrong final : Function {
    explicit Wrong(std::vector<Tensor> r) : result(std::move(r)) {}
    std::vector<Tensor> forward(std::span<const Tensor> inputs) override { return {inputs[0]}; }
    std::vector<Tensor> backward(std::span<const Tensor>) override { return result; }
    std::vector<Tensor> result;
  };
  const Tensor a = leaf({2, 3});
  const auto run = [&](std::vector<Tensor> result) {
    RecordScope record;
    const auto y = call(std::make_shared<Wrong>(std::move(result)), std::span(&a, 1));
    return message_of([&] { backward(y); });
  };
  EXPECT_EQ(run({}), "function: the gradient has 0 parts, there are 1 inputs");
  EXPECT_EQ(run({constant({1})}),
            "function: the gradient of input 0 is float64[1], the input is float64[2]");
}

TEST(Autograd, ErrorsSayWhichHeadIsWrongAndWhy) {
  const Tensor a = leaf({1, 2});
  const Tensor b = constant({1, 2});
  Tensor y;
  {
    RecordScope record;
    y = multiply(a, b);
  }
  const Tensor three = constant({1, 2, 3});
  const Tensor narrow = Tensor::zeros({2});
  EXPECT_EQ(message_of([&] { backward(b); }), "backward: head 0 (float64[2]) was not recorded");
  EXPECT_EQ(message_of([&] { backward(Tensor()); }), "backward: head 0 is undefined");
  EXPECT_EQ(message_of([&] { backward(std::span<const Tensor>()); }), "backward: there is no head");
  EXPECT_EQ(message_of([&] { backward(std::span(&y, 1), std::span(&three, 1)); }),
            "backward: the gradient of head 0 is float64[3], the head is float64[2]");
  EXPECT_EQ(message_of([&] { backward(std::span(&y, 1), std::span(&narrow, 1)); }),
            "backward: the gradient of head 0 is float32[2], the head is float64[2]");
  EXPECT_EQ(message_of([&] {
              backward(std::span(&y, 1), std::vector<Tensor>{b, b});
            }),
            "backward: 1 heads with 2 head gradients");
  EXPECT_EQ(message_of([&] { grad(std::span(&y, 1), std::span(&b, 1)); }),
            "grad: variable 0 (float64[2]) was not recorded and is no leaf");
  EXPECT_EQ(message_of([&] { attach_grad(Tensor::zeros({2}, DType::int32)); }),
            "attach_grad: int32[2] is not floating");
  backward(y);
  EXPECT_EQ(message_of([&] { backward(y); }),
            "backward: the record of 'multiply' was freed by an earlier backward (retain it to go "
            "back twice)");
}

TEST(Autograd, WhatWasForgottenIsConstant) {
  const Tensor a = leaf({2});
  Tensor state = constant({1});
  for (const double gradient_then : {4.0, 16.0, 64.0}) {
    Tensor y;
    {
      RecordScope record;
      state = multiply(a, state);
      y = multiply(state, state);
    }
    backward_and_forget(std::span(&y, 1));
    EXPECT_EQ(values_of(gradient(a)), (Values{gradient_then}));
    EXPECT_FALSE(requires_grad(state));
  }
}

TEST(Autograd, ARetainedRecordServesAgain) {
  const Tensor a = leaf({1, 2}, GradMode::add);
  Tensor y;
  {
    RecordScope record;
    y = multiply(a, a);
  }
  backward(std::span(&y, 1), {}, true);
  backward(y);
  EXPECT_EQ(values_of(gradient(a)), (Values{4, 8}));
}

TEST(Autograd, AChainOfAHundredThousandOpsOverflowsNothing) {
  const Tensor a = leaf({1});
  Tensor y = a;
  {
    RecordScope record;
    for (int i = 0; i < 100'000; ++i) y = add(y, a);
  }
  backward(std::span(&y, 1), {}, true);
  EXPECT_EQ(values_of(gradient(a)), (Values{100'001}));
  y = Tensor();
  Tensor unused = a;
  RecordScope record;
  for (int i = 0; i < 100'000; ++i) unused = negative(unused);
}

TEST(Autograd, TheTapeWorksInsideATrace) {
  const Infos infos{{{3}, DType::float64, {}}};
  const Graph graph = trace(
      [](const std::vector<Tensor>& inputs) {
        const Tensor x = inputs[0];
        attach_grad(x);
        Tensor y;
        {
          RecordScope record;
          y = multiply(multiply(x, x), x);
        }
        const Tensor first = grad(std::span(&y, 1), std::span(&x, 1), {}, true)[0];
        backward(first);
        return std::vector<Tensor>{y, first, gradient(x)};
      },
      infos);
  const std::vector<Tensor> inputs{constant({1, 2, 3})};
  const auto outputs = interpret(graph, inputs);
  EXPECT_EQ(values_of(outputs[0]), (Values{1, 8, 27}));
  EXPECT_EQ(values_of(outputs[1]), (Values{3, 12, 27}));
  EXPECT_EQ(values_of(outputs[2]), (Values{6, 12, 18}));
}

}  // namespace
}  // namespace lockstep::autograd
