// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "lockstep/graph/compiled_function.h"
#include "lockstep/ops/ops.h"
#include "tests/message.h"

namespace lockstep {
namespace {

using testing::message_of;
using Tensors = std::vector<Tensor>;

std::int64_t live_bytes() { return memory_stats().live_bytes; }

void expect_same(const Tensor& a, const Tensor& b) {
  const std::vector<float> x = a.to_vector<float>(), y = b.to_vector<float>();
  ASSERT_EQ(x.size(), y.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    ASSERT_NEAR(x[i], y[i], 1e-4 * std::max(1.0F, std::abs(x[i])));
}

TEST(CompiledShapes, AreForgottenBeyondTheLimitAndRightWhenTheyComeBack) {
  int traced = 0;
  CompiledFunction function = compile(
      [&](const Tensors& in) {
        ++traced;
        return Tensors{sum(exp(in[0]) * in[0], {0})};
      },
      {.plans = 3});
  const RandomScope draws(random_key(1));
  for (const std::int64_t rows : {1, 2, 3, 1, 4, 1, 2, 5}) {
    const Tensor x = normal({rows, 7});
    expect_same(function({x})[0], sum(exp(x) * x, {0}));
    EXPECT_LE(function.compiled_count(), 3U);
  }
  EXPECT_EQ(traced, 6);  // 1, 2, 3, 4, then 2 again, 5
  function.clear();
  EXPECT_EQ(function.compiled_count(), 0U);
  expect_same(function({ones({2, 7})})[0], sum(exp(ones({2, 7})), {0}));
}

// A captured weight, and what kernels make of it, is there once.
TEST(CompiledShapes, HoldWhatTheyCaptureOnce) {
  const RandomScope draws(random_key(2));
  const Tensor weight = normal({512, 512}), bias = normal({512});
  const auto weight_bytes = static_cast<std::int64_t>(weight.info().bytes());
  CompiledFunction function =
      compile([&](const Tensors& in) { return Tensors{dense(in[0], weight, bias)}; });
  function({normal({40, 512})});
  const std::int64_t before = live_bytes();
  for (std::int64_t rows = 20; rows < 40; ++rows) {
    const Tensor x = normal({rows, 512});
    expect_same(function({x})[0], dense(x, weight, bias));
  }
  EXPECT_EQ(function.compiled_count(), 21U);
  EXPECT_LT(live_bytes() - before, 3 * weight_bytes);
}

TEST(CompiledShapes, KeepEachWhatACapturedTensorHeldWhenTheyWereTraced) {
  const Tensor held = full({400}, 1.0);
  CompiledFunction function =
      compile([&](const Tensors& in) { return Tensors{in[0] + sum(held)}; });
  EXPECT_EQ(function({zeros({1})})[0].item(), 400.0);
  held.assign(full({400}, 2.0));
  EXPECT_EQ(function({zeros({2})})[0].to_vector<float>()[1], 800.0F);
  EXPECT_EQ(function({zeros({1})})[0].item(), 400.0);
}

TEST(CompiledShapes, ComputeInOneArena) {
  CompiledFunction function = compile([](const Tensors& in) {
    const Tensor y = sort(in[0]), z = sort(-y);
    return Tensors{sum(y * z)};
  });
  const auto run = [&](std::int64_t size) {
    const Tensor x = arange(0, static_cast<double>(size), 1);
    expect_same(function({x})[0], sum(sort(x) * sort(-sort(x))));
  };
  run(100000);
  const std::int64_t before = live_bytes();
  for (std::int64_t size = 99000; size < 99020; ++size) run(size);
  EXPECT_LT(live_bytes() - before, 100000);
}

// While a shape is traced, the only one that is kept goes.
TEST(CompiledShapes, MayBeForgottenWhileAnotherIsTraced) {
  const Tensor held = ones({3});
  CompiledFunction* self = nullptr;
  CompiledFunction function = compile(
      [&](const Tensors& in) {
        if (in[0].shape(0) != 4) return Tensors{in[0] * 2.0};
        return Tensors{in[0] * (*self)({held})[0].to_vector<float>()[0]};
      },
      {.plans = 1});
  self = &function;
  EXPECT_EQ(function({ones({1})})[0].item(), 2.0);
  EXPECT_EQ(function({ones({4})})[0].to_vector<float>(), std::vector<float>(4, 2.0F));
  EXPECT_EQ(function.compiled_count(), 1U);
}

// Two executables of one family over the same state.
Graph scaled(std::int64_t rows) {
  return trace([](const Tensors& in) { return Tensors{in[0] * in[1]}; },
               {{{rows, 3}, DType::float32, {}}, {{3}, DType::float32, {}}});
}

TEST(ExecutableShapes, ShareTheirStates) {
  Executable first = Executable::compile(scaled(2), {.states = {1}});
  Executable second = Executable::compile(scaled(4), {.states = {1}}, first);
  first.set_state(1, full({3}, 2.0));
  EXPECT_EQ(second.run({ones({4, 3})})[0].to_vector<float>(), std::vector<float>(12, 2.0F));
  second.set_state(1, full({3}, 5.0));
  EXPECT_EQ(first.run({ones({2, 3})})[0].to_vector<float>(), std::vector<float>(6, 5.0F));
  EXPECT_EQ(second.clone(first).run({ones({4, 3})})[0].to_vector<float>(),
            std::vector<float>(12, 5.0F));
}

TEST(ExecutableShapes, SeeTheStatesThatRunsOfAnotherLeave) {
  const TensorInfo weight{{3, 3}, DType::float32, {}}, row{{1, 3}, DType::float32, {}};
  Executable halves =
      Executable::compile(trace([](const Tensors& in) { return Tensors{in[0] * 0.5}; }, {weight}),
                          {.states = {0}, .carries = {{0, 0}}});
  Executable reader = Executable::compile(
      trace([](const Tensors& in) { return Tensors{matmul(in[1], exp(in[0]))}; }, {weight, row}),
      {.states = {0}}, halves);
  ASSERT_GT(reader.refresh_parts(), 0U);
  halves.set_state(0, full({3, 3}, 4.0));
  for (const double value : {4.0, 2.0, 1.0}) {
    expect_same(reader.run({ones({1, 3})})[0], exp(full({1, 3}, value)) * 3.0);
    halves.run({});
  }
}

TEST(ExecutableShapes, RefuseOtherStates) {
  const Executable first = Executable::compile(scaled(2), {.states = {1}});
  EXPECT_EQ(message_of([&] { Executable::compile(scaled(2), {}, first); }),
            "compile: 0 states cannot be those of an executable that has 1");
  EXPECT_EQ(message_of([&] { Executable::compile(scaled(2), {.states = {0}}, first); }),
            "compile: state 0 is float32[2, 3], in the executable that has it float32[3]");
}

}  // namespace
}  // namespace lockstep
