// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "lockstep/graph/differentiate.h"
#include "lockstep/graph/executable.h"
#include "lockstep/ops/ops.h"
#include "tests/message.h"

namespace lockstep {
namespace {

using testing::message_of;

Infos infos(const std::vector<Shape>& shapes) {
  Infos result;
  for (const Shape& shape : shapes) result.push_back({shape, DType::float32, {}});
  return result;
}

// Two convolutions and their loss; inputs data, w1, w2; outputs loss, dw1, dw2.
Graph conv_net() {
  const auto net = [](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    const Tensor y = relu(conv(in[0], in[1], {}, {.padding = {1}}));
    return {mean(square(conv(y, in[2], {}, {.padding = {1}})))};
  };
  const Graph graph = trace(net, infos({{2, 3, 8, 8}, {20, 3, 3, 3}, {16, 20, 3, 3}}));
  return differentiate(graph, 0, {1, 2});
}

CompileOptions with_deliveries() {
  CompileOptions options;
  options.states = {1, 2};
  options.deliveries = {{1, 1}, {2, 2}};
  return options;
}

std::vector<Tensor> inputs() {
  const RandomScope draws(random_key(7));
  return {normal({2, 3, 8, 8}), normal({20, 3, 3, 3}), normal({16, 20, 3, 3})};
}

struct Delivered {
  double loss;
  std::vector<Tensor> gradients;
  std::vector<std::size_t> order;
};

Delivered run(Executable& executable, const Tensor& data) {
  Delivered result{0, std::vector<Tensor>(2), {}};
  const Tensor loss = Tensor::zeros({});
  executable.run_into({&data, 1}, {&loss, 1}, [&](std::size_t index, auto bytes) {
    result.gradients[index] = executable.unpack(1 + index, bytes);
    result.order.push_back(index);
  });
  result.loss = loss.item();
  return result;
}

Executable compiled(const std::vector<Tensor>& in) {
  Executable executable = Executable::compile(conv_net(), with_deliveries());
  executable.set_state(1, in[1]);
  executable.set_state(2, in[2]);
  return executable;
}

TEST(Deliveries, GiveWhatReturnedOutputsWouldHaveTheLastLayerFirst) {
  const std::vector<Tensor> in = inputs();
  const std::vector<Tensor> expected = Executable::compile(conv_net()).run(in);
  Executable executable = compiled(in);
  const Delivered got = run(executable, in[0]);
  EXPECT_EQ(got.order, (std::vector<std::size_t>{1, 0}));
  EXPECT_NEAR(got.loss, expected[0].item(), 1e-5 * std::abs(expected[0].item()));
  for (std::size_t i = 0; i < 2; ++i) {
    const auto a = got.gradients[i].to_vector<float>(), b = expected[1 + i].to_vector<float>();
    for (std::size_t k = 0; k < a.size(); ++k) ASSERT_NEAR(a[k], b[k], 1e-4);
  }
}

TEST(Deliveries, MayUpdateTheirStateAtOnce) {
  const std::vector<Tensor> in = inputs();
  Executable late = compiled(in), early = compiled(in);
  const Delivered plain = run(late, in[0]);
  const Tensor loss = Tensor::zeros({});
  std::vector<Tensor> seen(2);
  early.run_into({in.data(), 1}, {&loss, 1}, [&](std::size_t index, auto bytes) {
    seen[index] = early.unpack(1 + index, bytes);
    for (std::byte& b : early.state_memory(1 + index)) b = std::byte{0};
  });
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_EQ(seen[i].to_vector<float>(), plain.gradients[i].to_vector<float>());
  early.refresh();
  EXPECT_EQ(run(early, in[0]).loss, 0.0);
}

TEST(Deliveries, OfClonesThatTakeTurnsAreThoseOfEachAlone) {
  const std::vector<Tensor> in = inputs();
  Executable first = compiled(in), second = first.clone();
  const Tensor other = in[0] * 2.0, losses[] = {Tensor::zeros({}), Tensor::zeros({})};
  std::vector<Tensor> got[2] = {std::vector<Tensor>(2), std::vector<Tensor>(2)};
  const auto into = [&](std::size_t run) {
    return [&, run](std::size_t index, auto bytes) {
      got[run][index] = first.unpack(1 + index, bytes);
    };
  };
  EXPECT_FALSE(first.go_on(into(0)));  // nothing was begun
  first.begin({in.data(), 1}, {&losses[0], 1});
  second.begin({&other, 1}, {&losses[1], 1});
  for (int delivery = 0; delivery < 2; ++delivery)
    EXPECT_TRUE(first.go_on(into(0)) && second.go_on(into(1)));
  EXPECT_FALSE(first.go_on(into(0)) || second.go_on(into(1)));
  const Delivered alone[] = {run(first, in[0]), run(second, other)};
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(losses[r].item(), alone[r].loss);
    for (std::size_t i = 0; i < 2; ++i)
      EXPECT_EQ(got[r][i].to_vector<float>(), alone[r].gradients[i].to_vector<float>());
  }
}

TEST(Deliveries, OfOtherStatesAreAsTheyWereBeforeTheRun) {
  // The gradient of a b with respect to a is b itself, and the other way round.
  const Graph graph = trace(
      [](const std::vector<Tensor>& in) -> std::vector<Tensor> {
        return {sum(in[0] * in[1]), in[1], in[0]};
      },
      infos({{2}, {2}}));
  CompileOptions options;
  options.states = {0, 1};
  options.deliveries = {{1, 0}, {2, 1}};
  Executable executable = Executable::compile(graph, options);
  const std::vector<float> a{1, 2}, b{3, 4};
  executable.set_state(0, Tensor::from(a, {2}));
  executable.set_state(1, Tensor::from(b, {2}));
  const Tensor loss = Tensor::zeros({});
  std::vector<std::vector<float>> seen(2);
  executable.run_into({}, {&loss, 1}, [&](std::size_t index, auto bytes) {
    for (std::byte& x : executable.state_memory(index)) x = std::byte{0};
    seen[index] = executable.unpack(index, bytes).template to_vector<float>();
  });
  EXPECT_EQ(loss.item(), 11.0);
  EXPECT_EQ(seen[0], b);
  EXPECT_EQ(seen[1], a);
}

TEST(Prologue, FollowsAStateThatWasSetAndOneThatWasWrittenAndRefreshed) {
  const std::vector<Tensor> in = inputs();
  Executable first = compiled(in), second = compiled(in);
  const double before = run(first, in[0]).loss;
  first.set_state(1, in[1] * 2.0);
  second.pack(1, in[1] * 2.0, second.state_memory(1));
  for (std::size_t part = 0; part < second.refresh_parts(); ++part) second.refresh(part);
  const Delivered a = run(first, in[0]), b = run(second, in[0]);
  EXPECT_NE(a.loss, before);
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(a.gradients[0].to_vector<float>(), b.gradients[0].to_vector<float>());
}

TEST(Prologue, IsMadeOnceForAllClones) {
  const std::vector<Tensor> in = inputs();
  Executable executable = compiled(in);
  const double expected = run(executable, in[0]).loss;
  executable.set_state(1, in[1]);
  std::vector<Executable> clones;
  for (int i = 0; i < 4; ++i) clones.push_back(executable.clone());
  std::vector<double> losses(clones.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < clones.size(); ++i)
      threads.emplace_back([&, i] { losses[i] = run(clones[i], in[0]).loss; });
  }
  for (double loss : losses) EXPECT_EQ(loss, expected);
}

TEST(Deliveries, RefuseWhatDoesNotFit) {
  CompileOptions options;
  options.states = {1};
  options.deliveries = {{1, 2}};
  EXPECT_EQ(message_of<InvalidArgument>([&] { Executable::compile(conv_net(), options); }),
            "compile: output 1 is delivered like input 2, which is not a state");
  options.deliveries = {{2, 1}};
  EXPECT_EQ(message_of<InvalidArgument>([&] { Executable::compile(conv_net(), options); }),
            "compile: the delivered output 2 is float32[16, 20, 3, 3], its state is "
            "float32[20, 3, 3, 3]");
  options.deliveries = {{1, 1}, {1, 1}};
  EXPECT_EQ(message_of<InvalidArgument>([&] { Executable::compile(conv_net(), options); }),
            "compile: output 1 leaves in two ways");
}

TEST(FindNonFinite, NamesTheStepThatMadeIt) {
  const Graph graph = trace(
      [](const std::vector<Tensor>& in) -> std::vector<Tensor> {
        return {sum(square(log(in[0] - 1.0)))};
      },
      infos({{4}}));
  Executable executable = Executable::compile(graph, {.fuse = false});
  const Tensor good = Tensor::full({4}, 3.0), bad = Tensor::full({4}, 0.5);
  EXPECT_FALSE(executable.find_non_finite({&good, 1}));
  EXPECT_EQ(executable.find_non_finite({&bad, 1})->what.substr(0, 3), "log");
}

}  // namespace
}  // namespace lockstep
