// SPDX-License-Identifier: Apache-2.0
// Executables that run in two parts, of which the second reads inputs that come later.
#include <gtest/gtest.h>

#include "lockstep/graph/differentiate.h"
#include "lockstep/graph/executable.h"
#include "lockstep/ops/ops.h"
#include "tests/message.h"

namespace lockstep {
namespace {

using testing::message_of;

constexpr std::size_t kWeight = 1, kGradient = 2;

// y = tanh(x w), and the gradients of x and w given that of y: inputs x, w, dy; outputs y, dx, dw.
Graph layer() {
  const auto forward = [](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    return {tanh(matmul(in[0], in[1]))};
  };
  const Graph graph = trace(forward, {{{4, 6}, DType::float32, {}}, {{6, 5}, DType::float32, {}}});
  return differentiate(graph, std::vector<std::size_t>{0}, {0, 1});
}

CompileOptions in_two_parts() {
  CompileOptions options;
  options.states = {kWeight};
  options.deliveries = {{2, kWeight}};
  options.early_outputs = {0};
  options.late_inputs = {kGradient};
  return options;
}

TEST(TwoParts, OfARunReadLateInputsInTheSecondAlone) {
  const RandomScope draws(random_key(3));
  const Tensor x = normal({4, 6}), w = normal({6, 5}), dy = normal({4, 5});
  const std::vector<Tensor> expected = Executable::compile(layer()).run({x, w, dy});
  Executable executable = Executable::compile(layer(), in_two_parts());
  executable.set_state(kWeight, w);
  const Tensor late = Tensor::full({4, 5}, 1e30), y = Tensor::zeros({4, 5});
  const std::vector<Tensor> inputs{x, late}, outputs{y, Tensor::zeros({4, 6})};
  executable.begin(inputs, outputs);
  executable.run_first_part();
  EXPECT_EQ(y.to_vector<float>(), expected[0].to_vector<float>());
  late.assign(dy);
  Tensor dw;
  while (executable.go_on([&](std::size_t, auto bytes) { dw = executable.unpack(kWeight, bytes); }))
    continue;
  EXPECT_EQ(outputs[1].to_vector<float>(), expected[1].to_vector<float>());
  EXPECT_EQ(dw.to_vector<float>(), expected[2].to_vector<float>());
}

// What one clone keeps between its parts is not in another one's way.
TEST(TwoParts, OfClonesRunInAnyOrder) {
  const RandomScope draws(random_key(4));
  const Tensor w = normal({6, 5}), x[] = {normal({4, 6}), normal({4, 6})}, dy = normal({4, 5});
  Executable first = Executable::compile(layer(), in_two_parts());
  first.set_state(kWeight, w);
  Executable second = first.clone();
  const std::vector<Tensor> of_first{Tensor::zeros({4, 5}), Tensor::zeros({4, 6})};
  const std::vector<Tensor> of_second{Tensor::zeros({4, 5}), Tensor::zeros({4, 6})};
  first.begin(std::vector<Tensor>{x[0], dy}, of_first);
  first.run_first_part();
  second.begin(std::vector<Tensor>{x[1], dy}, of_second);
  second.run_first_part();
  while (second.go_on({})) continue;
  while (first.go_on({})) continue;
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ((i == 0 ? of_first : of_second)[1].to_vector<float>(),
              Executable::compile(layer()).run({x[i], w, dy})[1].to_vector<float>());
}

// tanh twice: the gradient of x needs what that of the first weight does not wait for.
TEST(TwoParts, CanBeThreeOfWhichTheLastDelivers) {
  const auto forward = [](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    return {tanh(matmul(tanh(matmul(in[0], in[1])), in[2]))};
  };
  const TensorInfo square{{6, 6}, DType::float32, {}};
  const Graph graph = differentiate(trace(forward, {square, square, square}),
                                    std::vector<std::size_t>{0}, {0, 1, 2});
  CompileOptions options;
  options.states = {1, 2};
  options.deliveries = {{2, 1}, {3, 2}};
  options.early_outputs = {0};
  options.late_inputs = {3};
  Executable whole = Executable::compile(graph, options);
  options.deliveries_last = true;
  Executable split = Executable::compile(graph, options);
  EXPECT_EQ(split.delivery_order(), whole.delivery_order());
  const RandomScope draws(random_key(3));
  const Tensor x = normal({6, 6}), dy = normal({6, 6}), w[] = {normal({6, 6}), normal({6, 6})};
  const std::vector<Tensor> expected = Executable::compile(graph).run({x, w[0], w[1], dy});
  for (const std::size_t state : {1, 2}) split.set_state(state, w[state - 1]);
  const std::vector<Tensor> outputs{Tensor::zeros({6, 6}), Tensor::zeros({6, 6})};
  split.begin(std::vector<Tensor>{x, dy}, outputs);
  split.run_first_part();
  split.run_second_part();
  EXPECT_EQ(outputs[1].to_vector<float>(), expected[1].to_vector<float>());
  std::size_t delivered = 0;
  while (split.go_on([&](std::size_t delivery, std::span<const std::byte> bytes) {
    ++delivered;
    EXPECT_EQ(split.unpack(delivery + 1, bytes).to_vector<float>(),
              expected[delivery + 2].to_vector<float>());
  }))
    continue;
  EXPECT_EQ(delivered, 2U);
}

TEST(TwoParts, AreRefusedWhereTheFirstNeedsALateInput) {
  CompileOptions options = in_two_parts();
  options.early_outputs = {1};
  EXPECT_THROW(Executable::compile(layer(), options), InternalError);
  options.early_outputs = {3};
  EXPECT_EQ(message_of<InvalidArgument>([&] { Executable::compile(layer(), options); }),
            "compile: early output 3 of 3 does not exist");
  options = in_two_parts();
  options.late_inputs = {kWeight};
  EXPECT_EQ(message_of<InvalidArgument>([&] { Executable::compile(layer(), options); }),
            "compile: late input 1 is a state, or none of 3 inputs");
}

}  // namespace
}  // namespace lockstep
