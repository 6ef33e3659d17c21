// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <mutex>

#include "lockstep/base/float_mode.h"
#include "lockstep/kvstore/allreduce.h"
#include "lockstep/optim/optimizers.h"
#include "tests/kvstore/servers/server_room.h"
#include "tests/message.h"

namespace lockstep::kvstore {
namespace {

using testing::message_of, testing::ServerRoom;

constexpr std::int64_t kServedShards = 8;
constexpr int kServedSteps = 3;

// Small ones, one of a few pieces, and one of more than a part's.
FlatLayout layout() {
  FlatLayout layout;
  layout.add({.count = 5});
  layout.add({.count = 3 * optim::kPieceElements + 100, .rate_multiplier = 0.5});
  layout.add({.count = 77, .decay_multiplier = 0.0});
  layout.add({.count = 18 * optim::kPieceElements + 1});
  return layout;
}

float served_leaf(std::int64_t shard, std::size_t i, int step) {
  const auto number =
      static_cast<std::size_t>(shard) * 7919 + i * 31 + static_cast<std::size_t>(step) * 13;
  return 1.0F / static_cast<float>(1 + number % 1009) - 0.01F;
}

float tree(std::int64_t lo, std::int64_t hi, std::size_t i, int step) {
  if (hi - lo == 1) return served_leaf(lo, i, step);
  const std::int64_t middle = tree_middle(lo, hi);
  return tree(lo, middle, i, step) + tree(middle, hi, i, step);
}

// A worker's gradients of a step.
struct Gradients {
  std::vector<ShardRange> ranges;
  std::vector<std::vector<float>> sums;

  Gradients(const FlatLayout& layout, const ShardRange& own, int step)
      : ranges(subtrees_in(kServedShards, own)) {
    for (const ShardRange& range : ranges) {
      sums.emplace_back(layout.floats);
      for (const FlatParameter& parameter : layout.parameters)
        for (std::size_t i = 0; i < parameter.count; ++i)
          sums.back()[parameter.offset + i] = tree(range.lo, range.hi, parameter.offset + i, step);
    }
  }
  // Two parameters travel together.
  void give(const FlatLayout& layout, Synchronizer& synchronizer) const {
    for (std::size_t p = 0; p < layout.parameters.size(); p += 2) {
      const std::size_t begin = layout.parameters[p].offset;
      const std::size_t end = layout.parameters[p + 1].offset + layout.parameters[p + 1].count;
      std::vector<Synchronizer::Node> nodes;
      for (std::size_t n = 0; n < ranges.size(); ++n)
        nodes.push_back({ranges[n], std::span(sums[n]).subspan(begin, end - begin)});
      synchronizer.give(begin, nodes);
    }
  }
};

// Computed once for all tests.
const Gradients& gradients_of(const FlatLayout& layout, const ShardRange& own, int step) {
  static std::mutex mutex;
  static std::map<std::tuple<std::int64_t, std::int64_t, int>, Gradients> known;
  const std::lock_guard lock(mutex);
  return known.try_emplace({own.lo, own.hi, step}, layout, own, step).first->second;
}

Vote commit_vote(Synchronizer& synchronizer, const Vote& own = {}) {
  std::vector<float> rows(kServedShards);
  ThreadTeam caller(1);
  return synchronizer.commit(own, rows, caller);
}

// Weights and slots.
using Numbers = std::vector<std::vector<float>>;

struct Worker {
  FlatState state;
  std::unique_ptr<Synchronizer> synchronizer;
  ShardRange range;

  Worker(Mode& mode, const optim::OptimizerPtr& rule)
      : state(layout(), rule, mode.slot_place()),
        synchronizer(mode.synchronize(state, kServedShards)),
        range(mode.group().range(kServedShards)) {
    for (std::size_t i = 0; i < state.layout().floats; ++i) state.weights()[i] = 0.0F;
    for (const FlatParameter& parameter : state.layout().parameters)
      for (std::size_t i = 0; i < parameter.count; ++i)
        state.weights()[parameter.offset + i] = served_leaf(3, i + parameter.offset, 5);
    synchronizer->weights_changed();
  }

  Vote step(int number, const Vote& own = {}) {
    const FlushSubnormals flush;
    synchronizer->begin(number, 0.05);
    gradients_of(state.layout(), range, number).give(state.layout(), *synchronizer);
    return commit_vote(*synchronizer, own);
  }

  Numbers numbers() {
    Numbers result{{state.weights().begin(), state.weights().end()}};
    for (int k = 0; k < state.rule().slots(); ++k) {
      const auto slot = synchronizer->slot(static_cast<std::size_t>(k));
      result.emplace_back(slot.begin(), slot.end());
    }
    return result;
  }
};

Numbers train_served(Mode& mode, const optim::OptimizerPtr& rule) {
  Worker worker(mode, rule);
  for (int step = 0; step < kServedSteps; ++step) EXPECT_TRUE(worker.step(step).counts());
  return worker.numbers();
}

std::vector<optim::OptimizerPtr> some_rules() {
  return {optim::sgd({.momentum = 0.9, .weight_decay = 0.01}),
          optim::adam({}),
          optim::lamb({.weight_decay = 0.01}),
          optim::sgd({.momentum = 0.9, .clip_norm = 0.5}),
          optim::lamb({.clip_norm = 0.1}),
          optim::lars({})};
}

TEST(ServedMode, GivesTheBitsOfOneProcessOnAnyNumberOfServersAndWorkers) {
  for (const optim::OptimizerPtr& rule : some_rules()) {
    const Numbers expected = train_served(*local_mode(), rule);
    for (int servers : {1, 2, 3})
      for (int workers : {1, 2, 3, 5}) {
        ServerRoom room(servers, workers, ServerRoom::Links::memory, 1 + servers % 2);
        room.as_workers([&](Mode& mode) {
          EXPECT_TRUE(train_served(mode, rule) == expected)
              << rule->name() << ", " << rule->description() << ": " << servers << " servers, "
              << workers << " workers";
        });
      }
  }
}

TEST(ServedMode, GivesTheBitsOfAllReduceOverALink) {
  const auto rule = optim::adamw({});
  Numbers expected;
  testing::as_ranks(2, [&](comm::Communicator& communicator) {
    Numbers own = train_served(*allreduce_mode(communicator), rule);
    if (communicator.rank() == 0) expected = std::move(own);
  });
  ServerRoom room(2, 2, ServerRoom::Links::network);
  room.as_workers([&](Mode& mode) { EXPECT_TRUE(train_served(mode, rule) == expected); });
}

TEST(ServedMode, AStepThatIsNotFiniteLeavesTheOneBefore) {
  for (const optim::OptimizerPtr& rule : some_rules()) {
    ServerRoom room(2, 2);
    room.as_workers([&](Mode& mode) {
      Worker worker(mode, rule);
      worker.step(0);
      // By one worker's word, and by what the servers see.
      EXPECT_FALSE(worker.step(1, {.finite = mode.group().rank() == 0}).counts());
      Gradients bad = gradients_of(worker.state.layout(), worker.range, 1);
      if (mode.group().rank() == 1) bad.sums[0][40'000] = std::numeric_limits<float>::infinity();
      worker.synchronizer->begin(1, 0.05);
      bad.give(worker.state.layout(), *worker.synchronizer);
      EXPECT_FALSE(commit_vote(*worker.synchronizer).finite);
      worker.step(1);
      const auto local = local_mode();
      Worker alone(*local, rule);
      for (int step : {0, 1}) alone.step(step);
      EXPECT_TRUE(worker.numbers() == alone.numbers()) << rule->name();
    });
  }
}

// Something threw between two parts of the gradients; the step is begun once more.
TEST(ServedMode, AStepThatWasGivenInPartCountsForNothing) {
  const auto rule = optim::adam({});
  const Numbers expected = train_served(*local_mode(), rule);
  ServerRoom room(2, 3);
  room.as_workers([&](Mode& mode) {
    Worker worker(mode, rule);
    worker.step(0);
    const Gradients gradients(worker.state.layout(), worker.range, 7);
    std::vector<Synchronizer::Node> nodes;
    for (std::size_t n = 0; n < gradients.ranges.size(); ++n)
      nodes.push_back({gradients.ranges[n], std::span(gradients.sums[n]).first(5)});
    worker.synchronizer->begin(1, 0.05);
    if (mode.group().rank() != 1) worker.synchronizer->give(0, nodes);
    mode.group().share("");  // one has gone on, the others still wait for it
    for (int step : {1, 2}) EXPECT_TRUE(worker.step(step).counts());
    EXPECT_TRUE(worker.numbers() == expected);
  });
}

TEST(ServedMode, GoesOnWithANewSynchronizerAndWithSlotsThatWereSet) {
  const auto rule = optim::adam({});
  const Numbers expected = train_served(*local_mode(), rule);
  ServerRoom room(3, 2);
  Numbers kept;
  room.as_workers([&](Mode& mode) {
    Worker worker(mode, rule);
    worker.step(0);
    if (mode.group().is_first()) kept = worker.numbers();
    worker.step(1);
    // As in another membership.
    worker.synchronizer.reset();
    worker.synchronizer = mode.synchronize(worker.state, kServedShards);
    worker.step(2);
    EXPECT_TRUE(worker.numbers() == expected);
    // Back to the first step's end.
    mode.group().share("");
    std::copy(kept[0].begin(), kept[0].end(), worker.state.weights().begin());
    worker.synchronizer->weights_changed();
    for (std::size_t k = 1; k < kept.size(); ++k) worker.synchronizer->set_slot(k - 1, kept[k]);
    for (int step : {1, 2}) worker.step(step);
    EXPECT_TRUE(worker.numbers() == expected);
  });
}

TEST(ServedMode, RunsThatShareTheServersDoNotDisturbEachOther) {
  const auto rule = optim::adam({});
  const Numbers expected = train_served(*local_mode(), rule);
  ServerRoom room(2, 2);
  room.as_workers([&](Mode& mode) {
    auto one = std::make_unique<Worker>(mode, rule);
    Worker other(mode, rule);
    for (int step = 0; step < kServedSteps; ++step) one->step(step), other.step(step);
    EXPECT_TRUE(one->numbers() == expected);
    EXPECT_TRUE(other.numbers() == expected);
    // A later one begins anew, also of another rule.
    one.reset();
    one = std::make_unique<Worker>(mode, rule);
    for (int step = 0; step < kServedSteps; ++step) one->step(step);
    EXPECT_TRUE(one->numbers() == expected);
  });
  room.as_workers([&](Mode& mode) { EXPECT_TRUE(train_served(mode, rule) == expected); });
  const auto momentum = optim::sgd({.momentum = 0.9});
  const Numbers other = train_served(*local_mode(), momentum);
  room.as_workers([&](Mode& mode) { EXPECT_TRUE(train_served(mode, momentum) == other); });
}

TEST(ServedMode, CompressedGradientsLeaveResidualsAtTheWorkers) {
  for (const char* name : {"fp16", "bf16", "1bit", "2bit:0.05", "topk:0.1"}) {
    const auto rule = optim::sgd({});
    std::vector<Numbers> results(2);
    ServerRoom room(2, 2);
    room.as_workers(
        [&](Mode& mode) {
          Worker worker(mode, rule);
          const Numbers before = worker.numbers();
          for (int step = 0; step < kServedSteps; ++step) EXPECT_TRUE(worker.step(step).counts());
          results[static_cast<std::size_t>(mode.group().rank())] = worker.numbers();
          EXPECT_FALSE(worker.numbers() == before);
          EXPECT_EQ(worker.synchronizer->residual().size(),
                    mode.keeps_residuals() ? worker.state.layout().floats : 0);
          EXPECT_EQ(mode.description(), name);
          EXPECT_FALSE(mode.is_invariant());
        },
        {.compression = parse_compression(name)});
    EXPECT_TRUE(results[0] == results[1]) << name;
  }
}

// 16 bits round a little: the compressed run stays near.
TEST(ServedMode, RoundedGradientsTrainNearlyAsWhole) {
  const auto rule = optim::sgd({.momentum = 0.9});
  const Numbers expected = train_served(*local_mode(), rule);
  ServerRoom room(2, 3);
  room.as_workers(
      [&](Mode& mode) {
        const Numbers numbers = train_served(mode, rule);
        for (std::size_t i = 0; i < numbers[0].size(); ++i)
          ASSERT_NEAR(numbers[0][i], expected[0][i], 1e-3F) << i;
      },
      {.compression = parse_compression("fp16")});
}

TEST(ServedMode, ARuleOfNobodysKnowledgeIsRefusedByName) {
  class OwnRule final : public optim::Optimizer {
   public:
    OwnRule() : Optimizer({}) {}
    std::string_view name() const override { return "own"; }
    int slots() const override { return 0; }
    void update(const optim::UpdateContext&, const optim::Piece&) const override {}
    std::string description() const override { return ""; }
  };
  ServerRoom room(1, 1);
  room.as_workers([&](Mode& mode) {
    FlatState state(layout(), std::make_shared<OwnRule>(), mode.slot_place());
    EXPECT_EQ(message_of<Unsupported>([&] { mode.synchronize(state, kServedShards); }),
              "optimizer 'own': is made by hand, expected one that make_optimizer knows");
  });
}

TEST(ServedMode, AServerThatNeverComesIsNamedAtTheDeadline) {
  testing::ProcessRegistry registry;
  ServedJob job{.servers = 1, .workers = 1, .registry = registry.functions()};
  job.timeout = std::chrono::milliseconds(50);
  EXPECT_EQ(message_of<comm::Timeout>([&] { ps_mode(job, nullptr, alone()); }),
            "registry: nobody has put server/0");
  EXPECT_EQ(message_of([&] { serve(job, {.number = 1}); }),
            "serve: server 1 of 1, expected 0 to 0");
}

}  // namespace
}  // namespace lockstep::kvstore
