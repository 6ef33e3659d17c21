// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <thread>

#include "lockstep/graph/compiled_function.h"
#include "lockstep/graph/executable.h"
#include "lockstep/ops/create.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/reduce.h"
#include "tests/message.h"
#include "tests/nn/nets.h"

namespace lockstep::nn {
namespace {

using testing::drawn;
using testing::expect_close;
using testing::message_of;
using Floats = std::vector<float>;

// Counts how often forward runs: once for each executable.
class Counting : public Block {
 public:
  Counting() : weight_(add_parameter("weight", {-1}, {.init = init::constant(2)})) { initialize(); }
  Tensor forward(const Tensor& x) override {
    if (x.is_symbolic()) ++traced;
    ++calls;
    weight_.complete({x.shape(-1)});
    return nn::dropout(x * weight_.data(), 0.5);
  }
  int calls = 0, traced = 0;

 private:
  Parameter weight_;
};

TEST(Hybridize, TracesOnceForEachCombinationOfShapesAndMode) {
  Counting block;
  block.hybridize();
  block(ones({3, 2}));
  const int after_first = block.calls;  // one to tell shapes, one to compile
  EXPECT_EQ(after_first, 2);
  block(ones({3, 2}));
  EXPECT_EQ(block.calls, after_first);
  block(ones({4, 2}));
  EXPECT_EQ(block.calls, after_first + 1);
  const autograd::ModeScope train(true);
  const RandomScope draws(random_key(1));
  block(ones({4, 2}));
  EXPECT_EQ(block.calls, after_first + 2);
}

TEST(Hybridize, SeesAParametersNewValue) {
  Counting block;
  block.hybridize();
  EXPECT_EQ(block(ones({2})).to_vector<float>(), (Floats{2, 2}));
  block.parameter("weight").set_data(full({2}, 5.0));
  EXPECT_EQ(block(ones({2})).to_vector<float>(), (Floats{5, 5}));
  block.cast(DType::float64);
  EXPECT_EQ(block(ones({2}, DType::float64)).dtype(), DType::float64);
}

TEST(Hybridize, DrawsAsTheCallersScopeSays) {
  Counting block;
  block.hybridize();
  const autograd::ModeScope train(true);
  const auto draw = [&](std::uint64_t seed) {
    const RandomScope draws(random_key(seed));
    const Floats first = block(ones({64})).to_vector<float>();
    EXPECT_NE(first, block(ones({64})).to_vector<float>());
    return first;
  };
  EXPECT_EQ(draw(1), draw(1));
  EXPECT_NE(draw(1), draw(2));
}

TEST(Hybridize, RunsOpByOpWhileRecordedOrTraced) {
  Counting block;
  block.hybridize();
  block(ones({2}));
  const int traced = block.traced;
  {
    const RandomScope draws(random_key(1));
    const autograd::RecordScope record(/*train_mode=*/false);
    autograd::backward(sum(block(ones({2}))));
  }
  EXPECT_EQ(block.parameter("weight").grad().to_vector<float>(), (Floats{1, 1}));
  EXPECT_EQ(block.traced, traced);
  CompiledFunction outer = compile([&](const std::vector<Tensor>& x) { return block(x); });
  EXPECT_EQ(outer(std::vector<Tensor>{ones({2})})[0].to_vector<float>(), (Floats{2, 2}));
  EXPECT_EQ(block.traced, traced + 1);
}

TEST(Hybridize, CanBeSwitchedOff) {
  Counting block;
  block.hybridize();
  block(ones({2}));
  const int calls = block.calls;
  block.hybridize(false);
  block(ones({2}));
  EXPECT_EQ(block.calls, calls + 1);
}

TEST(Hybridize, AWholeNetGivesWhatItGivesOpByOp) {
  const auto net =
      sequential(conv2d(8, 3, {.padding = 1, .activation = "relu"}), batch_norm(), max_pool2d(2),
                 dense(16, {.activation = "relu"}), dropout(0.3), dense(4));
  testing::run_both_ways(*net, drawn({3, 2, 8, 8}, 1));
}

TEST(Hybridize, TellsShapesAndInitialValuesAsTheFirstCallWould) {
  const auto make = [] {
    const auto net = sequential(conv2d(4, 3), dense(3));
    net->initialize(init::xavier(), 2);
    return net;
  };
  const auto eager = make(), compiled = make();
  compiled->hybridize();
  const Tensor x = drawn({2, 2, 6, 6}, 1);
  expect_close((*compiled)(x), (*eager)(x), 1e-5);
  EXPECT_EQ(compiled->parameter("1.weight").data().to_vector<float>(),
            eager->parameter("1.weight").data().to_vector<float>());
}

// Uses a parameter that is not its own.
class Borrower : public Block {
 public:
  explicit Borrower(Parameter parameter) : parameter_(std::move(parameter)) {}
  Tensor forward(const Tensor& x) override { return x * parameter_.data(); }

 private:
  Parameter parameter_;
};

TEST(Hybridize, RefusesAParameterThatIsNotTheBlocks) {
  const auto owner = dense(1, {.inputs = 1});
  owner->initialize();
  owner->parameter("weight").set_name("fc.weight");
  Borrower block(owner->parameter("weight"));
  EXPECT_NO_THROW(block(ones({1, 1})));
  block.hybridize();
  EXPECT_EQ(message_of([&] {
              block(ones({1, 1}));
            }),
            "hybridize: forward uses fc.weight, which is no parameter of the block");
}

TEST(Hybridize, AFailedTraceLeavesTheBlockUsable) {
  const auto net = sequential(dense(2, {.inputs = 3}));
  net->initialize();
  net->hybridize();
  EXPECT_EQ(message_of([&] {
              (*net)(ones({1, 4}));
            }),
            "0 (Dense(2)): 0.weight: has shape [2, 3], got [2, 4]");
  EXPECT_EQ((*net)(ones({1, 3})).shape(), (Shape{1, 2}));
}

// Calls itself as often as it is told.
class Nested : public Block {
 public:
  explicit Nested(int depth) : left_(depth) {}
  Tensor forward(const Tensor& x) override {
    if (left_ == 0) return x;
    --left_;
    const Tensor inner = (*this)(x.is_symbolic() ? ones({2}) : x);
    ++left_;
    return inner + x;
  }
  std::string description() const override { return "Nested"; }

 private:
  int left_;
};

TEST(Hybridize, ABlockMayCallItselfWhileItIsTraced) {
  Nested block(3);
  const Floats expected = block(ones({2})).to_vector<float>();
  EXPECT_EQ(expected, (Floats{4, 4}));
  block.hybridize();
  EXPECT_EQ(block(ones({2})).to_vector<float>(), expected);
}

TEST(Hybridize, ABlockThatCallsItselfWithoutEndIsNamed) {
  const auto block = std::make_shared<Nested>(1 << 30);
  const auto net = sequential(dense(2), block);
  net->initialize();
  for (const bool compiled : {false, true}) {
    net->hybridize(compiled);
    EXPECT_EQ(message_of([&] {
                (*net)(ones({1, 2}));
              }),
              "1 (Nested): Nested: its forward calls the block itself, 1000 times inside each "
              "other");
  }
}

TEST(Hybridize, ServesSeveralThreads) {
  const auto net = sequential(dense(32, {.activation = "relu"}), dense(4));
  net->initialize();
  const Tensor x = drawn({8, 16}, 1);
  const Floats expected = (*net)(x).to_vector<float>();
  net->hybridize();
  std::vector<int> wrong(4, 0);
  {
    std::vector<std::jthread> threads;
    for (int& count : wrong)
      threads.emplace_back([&] {
        for (int i = 0; i < 20; ++i) {
          const Floats got = (*net)(x).to_vector<float>();
          for (std::size_t j = 0; j < got.size(); ++j)
            if (std::abs(got[j] - expected[j]) > 1e-5f) ++count;
        }
      });
  }
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

TEST(Hybridize, KeepsAsManyShapesAsItIsTold) {
  Counting block;
  block.hybridize(true, 2);
  const RandomScope draws(random_key(1));
  for (const std::int64_t rows : {3, 4, 3, 5, 4})
    EXPECT_EQ(block(ones({rows, 2})).to_vector<float>(),
              Floats(static_cast<std::size_t>(2 * rows), 2.0F));
  EXPECT_EQ(block.traced, 1 + 4);  // to tell shapes, then 3, 4, 5 and 4 again
  block.hybridize(true, 2);
  block(ones({4, 2}));
  EXPECT_EQ(block.traced, 1 + 5);
}

TEST(Hybridize, ComputesAllShapesInTheMemoryOfTheLargest) {
  const auto net =
      sequential(dense(64, {.activation = "relu"}), dense(64, {.activation = "relu"}), dense(3));
  net->initialize();
  net->hybridize();
  (*net)(drawn({400, 32}, 1));
  const std::int64_t before = memory_stats().live_bytes;
  for (std::int64_t rows = 300; rows < 320; ++rows) {
    const Tensor x = drawn({rows, 32}, 2);
    expect_close((*net)(x), net->forward(x), 1e-5);
  }
  // A row is 64 floats; 20 arenas of 300 rows would be 1.5 MB.
  EXPECT_LT(memory_stats().live_bytes - before, 300000);
}

}  // namespace
}  // namespace lockstep::nn
