// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/sharded.h"

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>
#include <numeric>

#include "lockstep/optim/optimizers.h"
#include "tests/kvstore/as_ranks.h"
#include "tests/message.h"

namespace lockstep::kvstore {
namespace {

using testing::message_of;

constexpr std::int64_t kShards = 8;
constexpr int kSteps = 3;

// Pieces that are whole, short and alone; and tables.
FlatLayout mixed_layout() {
  FlatLayout layout;
  layout.add({.count = 5});
  layout.add({.count = 3 * optim::kPieceElements + 100, .rate_multiplier = 0.5});
  layout.add({.count = 2 * optim::kPieceElements + 1, .decay_multiplier = 0.0});
  layout.add({.count = 700});
  layout.tables.push_back({.rows = 50, .width = 3});
  return layout;
}

float leaf(std::int64_t step, std::int64_t shard, std::size_t i) {
  const auto mixed = static_cast<std::uint32_t>(step * 1013 + shard * 7919) +
                     static_cast<std::uint32_t>(i) * 104729U;
  return static_cast<float>(mixed * 2654435761U >> 8) * 1e-8F - 0.08F;
}

std::vector<float> node(std::int64_t step, ShardRange shards, std::size_t floats) {
  std::vector<float> sum(floats);
  if (shards.hi - shards.lo == 1) {
    for (std::size_t i = 0; i < floats; ++i) sum[i] = leaf(step, shards.lo, i);
    return sum;
  }
  const std::int64_t middle = tree_middle(shards.lo, shards.hi);
  const std::vector<float> left = node(step, {shards.lo, middle}, floats);
  const std::vector<float> right = node(step, {middle, shards.hi}, floats);
  for (std::size_t i = 0; i < floats; ++i) sum[i] = left[i] + right[i];
  return sum;
}

std::vector<std::vector<RowNode>> rows_of(const FlatLayout& layout, ShardRange own,
                                          std::int64_t step) {
  std::vector<std::vector<RowNode>> tables;
  for (const RowTable& table : layout.tables) {
    std::vector<RowNode>& nodes = tables.emplace_back();
    for (const ShardRange& range : subtrees_in(kShards, own)) {
      RowSums sums{.ids = {step, step + 2}};
      sums.rows.assign(2 * table.width, 0.01F * static_cast<float>(range.hi - range.lo));
      nodes.push_back({range, sums});
    }
  }
  return tables;
}

Vote run_step(Synchronizer& synchronizer, const Group& group, std::int64_t step, int threads,
              float spoil = 0.0F) {
  const FlatLayout& layout = synchronizer.state().layout();
  const ShardRange own = group.range(kShards);
  std::vector<std::vector<float>> sums;
  std::vector<Synchronizer::Node> nodes;
  for (const ShardRange& range : subtrees_in(kShards, own)) {
    sums.push_back(node(step, range, layout.floats));
    sums.back().back() = 0.0F;
    sums.back()[layout.parameters[1].offset + 20'000] += spoil;
    nodes.push_back({range, {}});
  }
  synchronizer.begin(step, 0.01);
  for (std::size_t first = 0; first < layout.parameters.size(); first += 2) {  // two to a bucket
    const FlatParameter& last = layout.parameters[first + 1];
    const std::size_t offset = layout.parameters[first].offset;
    const std::size_t count = last.offset + last.count - offset;
    for (std::size_t n = 0; n < nodes.size(); ++n)
      nodes[n].sum = std::span(sums[n]).subspan(offset, count);
    synchronizer.give(offset, nodes);
  }
  synchronizer.give_rows(rows_of(layout, own, step));
  std::vector<float> rows(kShards);
  ThreadTeam team(threads);
  return synchronizer.commit({}, rows, team);
}

using Numbers = std::vector<std::vector<float>>;

template <class Floats>
std::vector<float> copy_of(const Floats& values) {
  return {values.begin(), values.end()};
}

// Weights, slots and tables after some steps; those of rank 0.
Numbers train(Mode& mode, const optim::OptimizerPtr& rule, int threads) {
  FlatState state(mixed_layout(), rule, mode.slot_place());
  const auto synchronizer = mode.synchronize(state, kShards);
  for (const FlatPiece& piece : state.layout().pieces)
    for (std::size_t i = piece.offset; i < piece.offset + piece.size(); ++i)
      state.weights()[i] = 0.001F * static_cast<float>(i % 1000);
  for (int step = 0; step < kSteps; ++step)
    EXPECT_TRUE(run_step(*synchronizer, mode.group(), step, threads).counts());
  synchronizer->collect_slots();
  Numbers numbers;
  for (const FlatParameter& parameter : state.layout().parameters)
    numbers.push_back(copy_of(state.weights().subspan(parameter.offset, parameter.count)));
  numbers.push_back(copy_of(state.tables().weights(0)));
  for (std::size_t k = 0; k < static_cast<std::size_t>(rule->slots()); ++k) {
    numbers.push_back(copy_of(state.tables().slot(k, 0)));
    if (!mode.group().is_first()) continue;
    const std::span<const float> slot = synchronizer->slot(k);
    for (const FlatParameter& parameter : state.layout().parameters)
      numbers.push_back(copy_of(slot.subspan(parameter.offset, parameter.count)));
  }
  return numbers;
}

Numbers train_workers(int workers, const optim::OptimizerPtr& rule, const AllReduceOptions& options,
                      int threads = 1) {
  std::vector<Numbers> all(static_cast<std::size_t>(workers));
  std::vector<std::string> hosts;
  for (int rank = 0; rank < workers; ++rank)
    hosts.push_back(workers % 2 == 1 ? std::to_string(rank) : "here");
  testing::as_ranks(hosts, [&](comm::Communicator& communicator) {
    const auto mode = allreduce_mode(communicator, options);
    all[static_cast<std::size_t>(communicator.rank())] = train(*mode, rule, threads);
  });
  for (const Numbers& one : all)
    for (std::size_t p = 0; p < 5; ++p)
      EXPECT_EQ(one[p], all[0][p]) << "weights of parameter " << p;
  return all[0];
}

std::vector<optim::OptimizerPtr> all_rules() {
  return {optim::sgd({}),  optim::sgd({.momentum = 0.9, .clip_norm = 0.5}),
          optim::adam({}), optim::adamw({.weight_decay = 0.01, .clip_norm = 0.5}),
          optim::lars({}), optim::lamb({.clip_norm = 0.5})};
}

TEST(Sharded, EveryRuleHasTheBitsThatItHasWithoutOnAnyNumberOfWorkersAndThreads) {
  for (const optim::OptimizerPtr& rule : all_rules()) {
    const Numbers expected = train_workers(1, rule, {});
    for (const ShardState stage : {ShardState::slots, ShardState::gradients})
      for (int workers = 1; workers <= 5; ++workers)
        EXPECT_EQ(train_workers(workers, rule, {.shard_state = stage}, 1 + workers % 3), expected)
            << rule->name() << ", " << workers << " workers, stage " << static_cast<int>(stage);
  }
}

TEST(Sharded, EveryWayToAddHasTheBitsThatItHasWithout) {
  const auto rule = optim::adam({.clip_norm = 0.5});
  for (const int workers : {2, 3, 5}) {
    for (const comm::Algorithm algorithm :
         {comm::Algorithm::ring, comm::Algorithm::hierarchical, comm::Algorithm::central})
      for (const ShardState stage : {ShardState::slots, ShardState::gradients})
        EXPECT_EQ(train_workers(workers, rule, {.algorithm = algorithm, .shard_state = stage}),
                  train_workers(workers, rule, {.algorithm = algorithm}));
    for (const char* compression : {"fp16", "bf16", "1bit", "2bit:0.05", "topk:0.1"}) {
      const Compression parsed = parse_compression(compression);
      for (const ShardState stage : {ShardState::slots, ShardState::gradients})
        EXPECT_EQ(train_workers(workers, rule, {.compression = parsed, .shard_state = stage}),
                  train_workers(workers, rule, {.compression = parsed}))
            << compression << ", " << workers;
    }
  }
}

TEST(Sharded, PiecesHaveOneOwnerEachAndOwnersNearlyAsManyFloats) {
  const FlatLayout layout = mixed_layout();
  std::size_t floats = 0;
  for (const FlatPiece& piece : layout.pieces) floats += piece.size();
  for (int workers = 1; workers <= 12; ++workers) {
    const PieceOwners owners(layout, workers);
    std::vector<int> seen(layout.pieces.size());
    for (int rank = 0; rank < workers; ++rank) {
      std::size_t own = 0;
      for (const std::size_t piece : owners.pieces_of(rank)) {
        own += layout.pieces[piece].size();
        ++seen[piece];
      }
      EXPECT_LE(own, floats / static_cast<std::size_t>(workers) + optim::kPieceElements);
    }
    EXPECT_EQ(seen, std::vector<int>(seen.size(), 1)) << workers;
  }
}

// The formulas of docs/model_parallel.md, of a layout with many pieces: floats of a worker.
TEST(Sharded, AWorkersPartOfTheStateIsWhatTheFormulaSays) {
  constexpr std::size_t kCount = 200 * optim::kPieceElements;
  const auto rule = optim::adam({});
  for (const int workers : {2, 3, 5})
    for (const ShardState stage : {ShardState::slots, ShardState::gradients})
      testing::as_ranks(workers, [&](comm::Communicator& communicator) {
        const auto mode = allreduce_mode(communicator, {.shard_state = stage});
        FlatLayout layout;
        layout.add({.count = kCount});
        FlatState state(layout, rule, mode->slot_place());
        const auto synchronizer = mode->synchronize(state, kShards);
        EXPECT_EQ(state.slots(), 0U);
        const double part = static_cast<double>(kCount) / workers;
        EXPECT_NEAR(static_cast<double>(state.owned_bytes()), 2 * 2 * part * sizeof(float),
                    0.05 * 2 * 2 * part * sizeof(float));
        const double sums =
            static_cast<double>(synchronizer->bytes()) +
            static_cast<double>(synchronizer->buffers() * state.layout().floats * sizeof(float));
        const bool is_whole = stage == ShardState::slots;
        const bool is_in_common_memory = !synchronizer->memory().empty();
        EXPECT_EQ(is_in_common_memory, workers == 2);  // where each has one subtree of the shards
        const double expected = is_in_common_memory ? 0.0 : is_whole ? kCount : part;
        EXPECT_NEAR(sums, expected * sizeof(float), 0.05 * part * sizeof(float)) << workers;
      });
}

TEST(Sharded, AStepThatIsNotFiniteLeavesTheOneBeforeOnEveryWorker) {
  for (const optim::OptimizerPtr& rule : {optim::adam({}), optim::lamb({.clip_norm = 0.5})})
    for (const ShardState stage : {ShardState::slots, ShardState::gradients})
      testing::as_ranks(3, [&](comm::Communicator& communicator) {
        const auto mode = allreduce_mode(communicator, {.shard_state = stage});
        FlatState state(mixed_layout(), rule, mode->slot_place());
        const auto synchronizer = mode->synchronize(state, kShards);
        EXPECT_TRUE(run_step(*synchronizer, mode->group(), 0, 1).counts());
        const std::vector<float> weights = copy_of(state.weights());
        const std::vector<float> slot = copy_of(state.owned().slot(0));
        const float bad = communicator.rank() == 1 ? INFINITY : 0.0F;
        EXPECT_FALSE(run_step(*synchronizer, mode->group(), 1, 1, bad).counts());
        EXPECT_EQ(copy_of(state.weights()), weights);
        EXPECT_EQ(copy_of(state.owned().slot(0)), slot);
        EXPECT_TRUE(run_step(*synchronizer, mode->group(), 1, 1).counts());
        EXPECT_NE(copy_of(state.weights()), weights);
      });
}

TEST(Sharded, SlotsThatWereCollectedCanBeSetAgainByAnyNumberOfWorkers) {
  const auto rule = optim::adam({});
  std::vector<float> all(mixed_layout().floats);
  std::iota(all.begin(), all.end(), 1.0F);
  for (const int workers : {2, 3, 5})
    testing::as_ranks(workers, [&](comm::Communicator& communicator) {
      const auto mode = allreduce_mode(communicator, {.shard_state = ShardState::gradients});
      FlatState state(mixed_layout(), rule, mode->slot_place());
      const auto synchronizer = mode->synchronize(state, kShards);
      synchronizer->set_slot(1, all);
      synchronizer->collect_slots();
      if (communicator.rank() != 0) return;
      const std::span<const float> slot = synchronizer->slot(1);
      for (const FlatPiece& piece : state.layout().pieces)
        EXPECT_EQ(copy_of(slot.subspan(piece.offset, piece.size())),
                  copy_of(std::span(all).subspan(piece.offset, piece.size())));
    });
}

// Parts are dealt anew between steps; owners stay.
TEST(Sharded, ASynchronizerOfTheSameWorkersGoesOnWithTheirSlots) {
  testing::as_ranks(2, [&](comm::Communicator& communicator) {
    const auto mode = allreduce_mode(communicator, {.shard_state = ShardState::slots});
    FlatState state(mixed_layout(), optim::adam({}), mode->slot_place());
    auto synchronizer = mode->synchronize(state, kShards);
    EXPECT_TRUE(run_step(*synchronizer, mode->group(), 0, 1).counts());
    const std::vector<float> slot = copy_of(state.owned().slot(0));
    synchronizer = mode->synchronize(state, kShards);
    EXPECT_EQ(copy_of(state.owned().slot(0)), slot);
    EXPECT_EQ(message_of<Unsupported>([&] { state.own({0}); }),
              "kvstore: what the rule keeps is shared between the workers, and cannot be shared "
              "between others without a checkpoint");
  });
}

TEST(Sharded, StagesThatThereAreNotAreRefused) {
  EXPECT_EQ(parse_shard_state(0), ShardState::none);
  EXPECT_EQ(parse_shard_state(2), ShardState::gradients);
  EXPECT_EQ(parse_shard_state(3), ShardState::parameters);
  EXPECT_EQ(message_of<InvalidArgument>([] { parse_shard_state(4); }),
            "shard-state 4: expected 0 (nothing), 1 (what the optimizer keeps), 2 (gradients too) "
            "or 3 (parameters too)");
}

}  // namespace
}  // namespace lockstep::kvstore
