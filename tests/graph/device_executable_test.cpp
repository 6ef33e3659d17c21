// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>
#include <thread>

#include "lockstep/graph/compiled_function.h"
#include "lockstep/graph/differentiate.h"
#include "lockstep/graph/executable.h"
#include "lockstep/ops/ops.h"
#include "tests/message.h"
#include "tests/ops/check_cases.h"
#include "tests/tensor/test_device.h"

namespace lockstep::testing {
namespace {

constexpr std::size_t kWeights = 2;  // inputs: data, w1, w2, m1, m2

Infos infos(const Device& device) {
  const Shape w1{20, 3, 3, 3}, w2{16, 20, 3, 3};
  Infos result;
  for (const Shape& shape : {Shape{2, 3, 8, 8}, w1, w2, w1, w2})
    result.push_back({shape, DType::float32, device});
  return result;
}

Tensors values() {
  const RandomScope draws(random_key(7));
  Tensors result;
  for (const TensorInfo& info : infos({})) result.push_back(normal(info.shape) * 0.2);
  return result;
}

Tensors loss_of(const Tensors& in) {
  const Tensor y = relu(conv(in[0], in[1], {}, {.padding = {1}}));
  return {mean(square(conv(y, in[2], {}, {.padding = {1}})))};
}

// Forward, loss, backward and update: loss, then new weights and momenta.
Graph training_graph(const Device& device) {
  const Infos all = infos(device);
  const Graph gradients = differentiate(trace(loss_of, {all[0], all[1], all[2]}), 0, {1, 2});
  const auto step = [&](const Tensors& in) {
    const Tensors made = interpret(gradients, std::span(in).first(1 + kWeights));
    const Tensor rate = full({}, 0.1, DType::float32, device);
    Tensors weights, momenta;
    for (std::size_t i = 0; i < kWeights; ++i) {
      const auto [w, m] = sgd_momentum_update(in[1 + i], made[1 + i], in[1 + kWeights + i], rate);
      weights.push_back(w);
      momenta.push_back(m);
    }
    return Tensors{made[0], weights[0], weights[1], momenta[0], momenta[1]};
  };
  return trace(step, all);
}

CompileOptions carried() {
  return {.states = {1, 2, 3, 4}, .carries = {{1, 1}, {2, 2}, {3, 3}, {4, 4}}};
}

// Losses of some steps, then the states. In the middle the first state is set anew.
Tensors train(const Device& device) {
  const Tensors start = values();
  Executable executable = Executable::compile(training_graph(device), carried());
  for (std::size_t input : carried().states) executable.set_state(input, start[input]);
  Tensors results;
  for (int step = 0; step < 5; ++step) {
    if (step == 3) executable.set_state(1, start[1].to(device));
    results.push_back(executable.run({start[0].to(device)})[0]);
  }
  for (std::size_t input : carried().states) results.push_back(executable.state(input));
  return results;
}

TEST(ExecutableOnADevice, ATrainingStepGivesTheHostsBits) {
  const auto device = TestDevice::make();
  const Tensors got = train(device->device());
  for (const Tensor& x : got) EXPECT_EQ(x.device(), device->device());
  expect_the_hosts_bits(got, train({}));
}

TEST(ExecutableOnADevice, RunsNothingBeforeSomebodyWaits) {
  const auto device = TestDevice::make();
  Executable executable =
      Executable::compile(trace([](const Tensors& x) { return Tensors{tanh(x[0])}; },
                                {{{3}, DType::float32, device->device()}}));
  const Tensor x = Tensor::full({3}, 0.5).to(device->device());
  device->synchronize();
  const Tensor y = executable.run({x})[0];
  EXPECT_EQ(device->waiting(), 1U);
  EXPECT_EQ(bit_difference(y.to(cpu()), tanh(Tensor::full({3}, 0.5))), "");
}

struct DeliveringOnDevice {
  Executable executable;
  Tensors gradients = Tensors(kWeights);

  explicit DeliveringOnDevice(const Device& device)
      : executable(Executable::compile(
            differentiate(trace(loss_of, {infos(device)[0], infos(device)[1], infos(device)[2]}), 0,
                          {1, 2}),
            {.states = {1, 2}, .deliveries = {{1, 1}, {2, 2}}})) {
    for (std::size_t input : {1, 2}) executable.set_state(input, values()[input]);
  }

  // The gradients, then the loss.
  Tensors run(Executable& by, const Device& device) {
    Tensors results(kWeights + 1);
    results[kWeights] = Tensor::zeros({}, DType::float32, device);
    by.run_into({values()[0].to(device)}, {results[kWeights]},
                [&](std::size_t index, std::span<const std::byte> bytes) {
                  results[index] = by.unpack(1 + index, bytes);
                });
    return results;
  }
};

TEST(ExecutableOnADevice, DeliversWhatTheHostWouldDeliver) {
  const auto device = TestDevice::make();
  DeliveringOnDevice here({}), there(device->device());
  expect_the_hosts_bits(there.run(there.executable, device->device()),
                        here.run(here.executable, {}));
}

TEST(ExecutableOnADevice, FollowsStatesThatMoveAndMemoryThatIsWritten) {
  const auto device = TestDevice::make();
  DeliveringOnDevice here({}), there(device->device());
  std::vector<std::vector<std::byte>> homes;
  for (DeliveringOnDevice* each : {&here, &there}) {
    const std::span<std::byte> old = each->executable.state_memory(1);
    homes.emplace_back(old.begin(), old.end());
    each->executable.set_state_memory(1, homes.back());
    each->executable.pack(2, values()[2] * 2.0, each->executable.state_memory(2));
    each->executable.refresh();
  }
  expect_the_hosts_bits(there.run(there.executable, device->device()),
                        here.run(here.executable, {}));
}

TEST(ExecutableOnADevice, ClonesOfSeveralThreadsShareItsStates) {
  const auto device = TestDevice::make();
  DeliveringOnDevice here({}), there(device->device());
  const Tensors want = here.run(here.executable, {});
  std::vector<Tensors> got(3);
  {
    std::vector<Executable> clones;
    for (std::size_t t = 0; t < got.size(); ++t) clones.push_back(there.executable.clone());
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < got.size(); ++t)
      threads.emplace_back([&, t] { got[t] = there.run(clones[t], device->device()); });
    for (std::jthread& thread : threads) thread.join();
  }
  for (const Tensors& each : got) expect_the_hosts_bits(each, want);
}

TEST(ExecutableOnADevice, AStateThatIsSetAnewLeavesEarlierRunsAsTheyWere) {
  const auto device = TestDevice::make();
  const TensorInfo info{{2}, DType::float32, device->device()};
  Executable executable = Executable::compile(
      trace([](const Tensors& in) { return Tensors{in[0] + in[1]}; }, {info, info}),
      {.states = {1}});
  const Tensor x = Tensor::full({2}, 10.0).to(device->device());
  executable.set_state(1, Tensor::full({2}, 1.0));
  const Tensor first = executable.run({x})[0];
  executable.set_state(1, Tensor::full({2}, 2.0));
  const Tensor second = executable.run({x})[0];
  EXPECT_EQ(first.to(cpu()).to_vector<float>(), (std::vector<float>{11, 11}));
  EXPECT_EQ(second.to(cpu()).to_vector<float>(), (std::vector<float>{12, 12}));
}

TEST(ExecutableOnADevice, FindsTheStepThatMakesANaN) {
  const auto device = TestDevice::make();
  const auto root = [](const Tensors& x) { return Tensors{sqrt(x[0]) + 1.0}; };
  Executable executable =
      Executable::compile(trace(root, {{{2}, DType::float32, device->device()}}), {.fuse = false});
  EXPECT_FALSE(executable.find_non_finite({Tensor::full({2}, 4.0).to(device->device())}));
  const auto found = executable.find_non_finite({Tensor::full({2}, -4.0).to(device->device())});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->what, "sqrt");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto given = executable.find_non_finite({Tensor::full({2}, nan).to(device->device())});
  EXPECT_EQ(given->kind, NonFinite::Kind::input);
}

TEST(ExecutableOnADevice, RefusesTensorsOfTheHost) {
  const auto device = TestDevice::make();
  Executable executable =
      Executable::compile(trace([](const Tensors& x) { return Tensors{tanh(x[0])}; },
                                {{{3}, DType::float32, device->device()}}));
  EXPECT_EQ(message_of([&] { executable.run({Tensor::zeros({3})}); }),
            "executable: input 0 is float32[3] on cpu(0), not on test(0), compiled for float32[3]");
}

TEST(ExecutableOnADevice, AGraphIsOnOneDevice) {
  const auto device = TestDevice::make();
  const auto both = [&](const Tensors& x) { return Tensors{tanh(x[0]), zeros({2})}; };
  EXPECT_EQ(message_of([&] {
              Executable::compile(trace(both, {{{3}, DType::float32, device->device()}}));
            }),
            "compile: the graph is on test(0) and cpu(0)");
}

TEST(ExecutableOnADevice, ACompiledFunctionRunsThere) {
  const auto device = TestDevice::make();
  CompiledFunction function = compile([](const std::vector<Tensor>& x) {
    return std::vector<Tensor>{lockstep::dropout(x[0] * 2.0, 0.5)};
  });
  const Tensor x = values()[0];
  const auto run = [&](const Device& place) {
    const RandomScope draws(random_key(11).to(place));
    return function({x.to(place)});
  };
  expect_the_hosts_bits(run(device->device()), run({}));
  EXPECT_EQ(function.compiled_count(), 2U);
}

TEST(ExecutableOnADevice, IsProfiledStepByStep) {
  const auto device = TestDevice::make();
  Executable executable = Executable::compile(training_graph(device->device()), carried());
  const auto times = executable.profile({values()[0].to(device->device())}, 1);
  EXPECT_FALSE(times.empty());
  EXPECT_EQ(device->waiting(), 0U);
}

}  // namespace
}  // namespace lockstep::testing
