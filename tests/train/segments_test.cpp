// SPDX-License-Identifier: Apache-2.0
// Nets that are cut into segments: the same numbers as uncut, up to rounding; the same bits whoever
// computes them.
#include <gtest/gtest.h>

#include <cmath>

#include "lockstep/kvstore/allreduce.h"
#include "lockstep/nn/loss.h"
#include "lockstep/nn/models/models.h"
#include "lockstep/optim/optimizers.h"
#include "lockstep/train/choose_cuts.h"
#include "tests/kvstore/as_ranks.h"
#include "tests/message.h"
#include "tests/seed.h"
#include "tests/train/cut_nets.h"

namespace lockstep::train {
namespace {

using testing::message_of;
using testing::RandomChain;

constexpr std::int64_t kSegmentShards = 5, kSegmentSteps = 3;

struct SegmentOutcome {
  std::string sha256;
  std::vector<double> losses;
  std::vector<std::pair<std::string, Tensor>> parameters;
};

struct SegmentWay {
  std::vector<std::string> cuts = {};
  int threads = 1;
  kvstore::Mode* mode = nullptr;
};

SegmentOutcome train_segments(std::uint64_t seed, const SegmentWay& way) {
  const auto net = std::make_shared<RandomChain>(seed);
  net->initialize(nn::init::fan_in(), 3);
  StepEngine engine(net, nn::SoftmaxCrossEntropyLoss(), optim::adam({.learning_rate = 0.01}),
                    testing::cut_fields(),
                    {.shards = kSegmentShards,
                     .threads = way.threads,
                     .seed = 7,
                     .mode = way.mode,
                     .cuts = way.cuts});
  SegmentOutcome outcome;
  outcome.losses = testing::run_cut_steps(engine, kSegmentSteps);
  outcome.sha256 = engine.params_sha256();
  outcome.parameters = engine.snapshot().parameters;
  return outcome;
}

std::vector<std::string> random_cuts(std::uint64_t seed) {
  std::mt19937_64 draw(seed);
  std::vector<std::string> cuts;
  for (int block = 1; block < 7; ++block)
    if (draw() % 2 == 0) cuts.push_back(std::to_string(block));
  if (cuts.empty()) cuts.push_back("3");
  return cuts;
}

TEST(Segments, OfRandomNetsComputeWhatTheWholeDoes) {
  for (std::uint64_t k = 0; k < 12; ++k) {
    const std::uint64_t seed = testing::seed_of_this_run() + k;
    SCOPED_TRACE("seed " + std::to_string(seed));
    const SegmentOutcome whole = train_segments(seed, {}),
                         cut = train_segments(seed, {.cuts = random_cuts(seed)});
    for (std::size_t step = 0; step < whole.losses.size(); ++step)
      EXPECT_NEAR(cut.losses[step], whole.losses[step], 1e-4 * std::abs(whole.losses[step]));
    double apart = 0.0, size = 0.0;
    for (std::size_t i = 0; i < whole.parameters.size(); ++i) {
      EXPECT_EQ(cut.parameters[i].first, whole.parameters[i].first);
      const auto a = cut.parameters[i].second.to_vector<double>();
      const auto b = whole.parameters[i].second.to_vector<double>();
      for (std::size_t e = 0; e < a.size(); ++e) {
        apart += (a[e] - b[e]) * (a[e] - b[e]);
        size += b[e] * b[e];
      }
    }
    EXPECT_LT(std::sqrt(apart / size), 1e-3);
  }
}

TEST(Segments, HaveTheSameBitsForAnyNumberOfThreadsAndWorkers) {
  for (std::uint64_t k = 0; k < 4; ++k) {
    const std::uint64_t seed = testing::seed_of_this_run() + k;
    SCOPED_TRACE("seed " + std::to_string(seed));
    const std::vector<std::string> cuts = random_cuts(seed);
    const SegmentOutcome one = train_segments(seed, {.cuts = cuts});
    for (const int threads : {2, 3})
      EXPECT_EQ(train_segments(seed, {.cuts = cuts, .threads = threads}).sha256, one.sha256);
    for (const int workers : {2, 3})
      testing::as_ranks(workers, [&](comm::Communicator& communicator) {
        const auto mode = kvstore::allreduce_mode(communicator);
        const SegmentOutcome own = train_segments(seed, {.cuts = cuts, .mode = mode.get()});
        EXPECT_EQ(own.sha256, one.sha256);
        EXPECT_EQ(own.losses, one.losses);
      });
  }
}

TEST(Segments, OfACutThatIsNotThereAreRefusedInOneLine) {
  const auto refused = [](std::vector<std::string> cuts) {
    return message_of<InvalidArgument>([&] { train_segments(1, {.cuts = std::move(cuts)}); });
  };
  EXPECT_EQ(refused({"blocks.2"}).substr(0, 39), "cut 'blocks.2' names no block of the ne");
  EXPECT_EQ(refused({"2", "2"}), "cut '2' and cut '2' are the same block");
  EXPECT_EQ(refused({"0"}), "cut '0': the segment before it has nothing to compute");
}

// One block that stands in two places of a net.
TEST(Segments, DoNotBeginInABlockThatIsShared) {
  const auto shared = nn::dense(RandomChain::kWidth, {.inputs = RandomChain::kWidth});
  const auto net = nn::sequential(nn::dense(RandomChain::kWidth, {.inputs = RandomChain::kWidth}),
                                  shared, shared, nn::dense(5, {.inputs = RandomChain::kWidth}));
  net->initialize();
  EXPECT_EQ(message_of<InvalidArgument>([&] {
              trace_step(*net, nn::SoftmaxCrossEntropyLoss(), testing::cut_fields(), {}, {"1"});
            }),
            "cut '1': a step calls the block 2 times, expected once: a segment cannot begin in a "
            "block that is shared");
}

TEST(Segments, AreChosenByTheirWork) {
  const auto net = nn::models::gpt({.vocabulary = 11, .context = 6, .width = 8, .heads = 2});
  net->initialize();
  const std::vector<TensorInfo> fields{{{2, 6}, DType::int64, {}}, {{2, 6}, DType::int64, {}}};
  const auto cuts = [&](std::int64_t segments) {
    return choose_cuts(*net, nn::SoftmaxCrossEntropyLoss(), fields, {}, segments);
  };
  EXPECT_EQ(cuts(1), std::vector<std::string>{});
  EXPECT_EQ(cuts(2), std::vector<std::string>{"blocks.2"});
  EXPECT_EQ(cuts(4), (std::vector<std::string>{"blocks.1", "blocks.2", "blocks.3"}));
  EXPECT_TRUE(message_of<InvalidArgument>([&] {
                cuts(1000);
              }).starts_with("train: 1000 segments are too many: the net can be cut into "));
}

// Where nothing is shared, what crosses a cut is one value up and its gradient down.
TEST(Segments, OfAChainExchangeOneValueAndItsGradient) {
  const auto net = nn::models::gpt(
      {.vocabulary = 11, .context = 6, .width = 8, .heads = 2, .blocks = 2, .dropout = 0.1});
  net->initialize();
  const StepGraph step =
      trace_step(*net, nn::SoftmaxCrossEntropyLoss(),
                 {{{2, 6}, DType::int64, {}}, {{2, 6}, DType::int64, {}}}, {}, {"blocks.1"});
  SegmentOptions options{.segments = 2, .cells = step.cells};
  for (std::size_t i = 0; i < step.parameters.size(); ++i)
    options.states.push_back(step.parameter_input(i));
  for (std::size_t i = 0; i < step.trainable.size(); ++i)
    options.outputs_with_states.emplace_back(step.gradient_output(i),
                                             step.parameter_input(step.trainable[i]));
  const Segments cut = cut_into_segments(step.graph, options);
  ASSERT_EQ(cut.values.size(), 2U);
  EXPECT_EQ(cut.going_up(0).size(), 1U);
  EXPECT_EQ(cut.going_down(0).size(), 1U);
  for (const CrossingValue& value : cut.values) EXPECT_EQ(value.info.shape, (Shape{2, 6, 8}));
  EXPECT_EQ(cut.segments[0].states.size() + cut.segments[1].states.size(), step.parameters.size());
}

// One layer has most of the parameters, and little of the work: it comes last.
TEST(Segments, CanBeEvenInMemoryInsteadOfWork) {
  const auto conv = [] { return nn::conv2d(8, {3, 3}, {.padding = {1, 1}}); };
  const auto net = nn::sequential(conv(), conv(), conv(), conv(), nn::flatten(), nn::dense(64),
                                  nn::dense(4096), nn::dense(10));
  net->initialize();
  const std::vector<TensorInfo> fields{{{1, 3, 16, 16}, DType::float32, {}},
                                       {{1}, DType::int64, {}}};
  const auto cut = [&](Balance balance) {
    return choose_cuts(*net, nn::SoftmaxCrossEntropyLoss(), fields, {}, 2, balance).at(0);
  };
  EXPECT_EQ(cut(Balance::work), "4");
  EXPECT_EQ(cut(Balance::memory), "6");
}

}  // namespace
}  // namespace lockstep::train
