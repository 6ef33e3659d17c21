// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/servers/served_table.h"

#include <gtest/gtest.h>

#include "lockstep/kvstore/servers/floats.h"
#include "lockstep/optim/optimizers.h"
#include "tests/kvstore/servers/kept_answers.h"
#include "tests/message.h"

namespace lockstep::kvstore {
namespace {

using testing::KeptAnswers, testing::message_of;

constexpr std::size_t kServedCount = 20'000;  // two pieces

wire::MakeTable table_of(const optim::OptimizerPtr& rule) {
  wire::MakeTable request;
  request.table = "weights";
  request.epoch = 9;
  request.shards = 2;
  request.parameters = {{kServedCount, 1.0, 1.0}};
  request.rule = wire::Rule::of(*rule);
  request.compression = "none";
  return request;
}

// A table that two workers train, each with one of two shards.
class TableTest : public ::testing::Test {
 protected:
  explicit TableTest(const optim::OptimizerPtr& rule = optim::sgd({})) : table(table_of(rule)) {}

  static wire::Step step(std::uint64_t round, std::uint64_t committed, std::uint32_t worker) {
    return {.table = "weights",
            .epoch = 9,
            .round = round,
            .committed = committed,
            .number = static_cast<std::int64_t>(round) - 1,
            .rate = 1.0,
            .worker = worker};
  }

  comm::MessageEvent event(std::vector<float> floats = {}) {
    comm::MessageEvent event;
    event.request = ++requests;
    event.payload = comm::Payload("");
    if (floats.empty()) return event;
    const auto kept = std::make_shared<std::vector<float>>(std::move(floats));
    add_floats(event.payload, *kept, kept);
    return event;
  }

  void give(std::uint32_t worker, float value, std::uint64_t round, std::uint64_t committed) {
    wire::Give request{.step = step(round, committed, worker), .offset = 0, .count = kServedCount};
    request.nodes = {{worker, worker + 1}};
    table.give(event(std::vector<float>(kServedCount, value)), request, team, answers);
  }

  float weight() {
    table.read(event(), {"weights", 9, -1, 0, kServedCount}, answers);
    std::vector<float> values(kServedCount);
    copy_floats(answers.replies.back().second, 1, values);
    EXPECT_EQ(values.back(), values.front());
    return values[0];
  }

  // The round's end, as a worker tells it that gives nothing more.
  void settle(std::uint64_t round, std::uint64_t committed) {
    table.settle(event(), {step(round, committed, 0)}, answers);
  }

  ServedTable table;
  KeptAnswers answers;
  ThreadTeam team{1};
  std::uint64_t requests = 0;
};

TEST_F(TableTest, AStepCountsWhenItIsCommitted) {
  give(0, 1.0F, 1, 0);
  EXPECT_TRUE(answers.replies.empty());
  give(1, 3.0F, 1, 0);
  ASSERT_EQ(answers.replies.size(), 2U);  // of both
  EXPECT_EQ(answers.replies[0].first, 1U);
  std::vector<float> weights(kServedCount);
  copy_floats(answers.replies[0].second, 1, weights);
  EXPECT_EQ(weights[kServedCount - 1], -2.0F);  // the mean's
  EXPECT_EQ(weight(), 0.0F);
  settle(1, 1);
  EXPECT_EQ(weight(), -2.0F);
}

TEST_F(TableTest, ARequestThatComesTwiceCountsOnce) {
  give(0, 1.0F, 1, 0);
  give(0, 1.0F, 1, 0);
  EXPECT_TRUE(answers.replies.empty());
  give(1, 3.0F, 1, 0);
  EXPECT_EQ(answers.replies.size(), 3U);
  give(0, 1.0F, 1, 0);
  ASSERT_EQ(answers.replies.size(), 4U);
  EXPECT_EQ(answers.replies[3].second.size(1), kServedCount * sizeof(float));
  settle(1, 1);
  settle(1, 1);
  EXPECT_EQ(weight(), -2.0F);
  EXPECT_EQ(message_of([&] { give(0, 1.0F, 1, 0); }), "round 1 of step 0 is over");
}

TEST_F(TableTest, AStepThatWasNotCommittedIsDroppedAndWhoWaitsIsTold) {
  give(0, 1.0F, 1, 0);
  give(0, 5.0F, 2, 0);
  ASSERT_EQ(answers.failures.size(), 1U);
  EXPECT_EQ(answers.failures[0].second, "table 'weights': step 0 was dropped");
  give(1, 5.0F, 2, 0);
  settle(2, 2);
  EXPECT_EQ(weight(), -5.0F);
}

// One worker died with the news that step 0 counts; the others do it again.
TEST_F(TableTest, AStepThatWorkersDoAgainInANewEpochIsTakenBack) {
  give(0, 1.0F, 1, 0), give(1, 3.0F, 1, 0);
  settle(1, 1);
  wire::MakeTable again = table_of(optim::sgd({}));
  again.epoch = 10;
  table.begin_epoch(again, answers);
  EXPECT_NE(message_of([&] { give(0, 1.0F, 2, 1); }).find("another membership"), std::string::npos);
  for (const std::uint32_t worker : {0U, 1U}) {
    wire::Give request{.step = step(1, 0, worker), .offset = 0, .count = kServedCount};
    request.step.epoch = 10;
    request.nodes = {{worker, worker + 1}};
    table.give(event(std::vector<float>(kServedCount, 4.0F)), request, team, answers);
  }
  table.settle(event(), {{"weights", 10, 1, 1, 0, 1.0, 0}}, answers);
  table.read(event(), {"weights", 10, -1, 0, 1}, answers);
  std::vector<float> one(1);
  copy_floats(answers.replies.back().second, 1, one);
  EXPECT_EQ(one[0], -4.0F);
}

// All workers gave step 0, and the one that saw the votes may live or not.
class WholeStepTest : public TableTest {
 protected:
  WholeStepTest() {
    table.write(event(std::vector<float>(kServedCount, 0.0F)), {"weights", 9, -1, 0, kServedCount},
                answers);
    give(0, 1.0F, 1, 0), give(1, 3.0F, 1, 0);
    wire::MakeTable again = table_of(optim::sgd({}));
    again.epoch = kLater;
    table.begin_epoch(again, answers);
  }

  float weight_after(std::int64_t steps) { return weight_after(steps, table); }
  float weight_after(std::int64_t steps, ServedTable& of) {
    of.align(event(), {"weights", kLater, steps}, answers);
    of.read(event(), {"weights", kLater, -1, 0, 1}, answers);
    std::vector<float> one(1);
    copy_floats(answers.replies.back().second, 1, one);
    return one[0];
  }

  static constexpr std::uint64_t kLater = (std::uint64_t{1} << 32) + 5;
};

TEST_F(WholeStepTest, CountsWhereTheWorkersOfTheNextEpochHaveDoneIt) {
  EXPECT_EQ(weight_after(1), -2.0F);
}

TEST_F(WholeStepTest, IsDroppedWhereTheyHaveNot) { EXPECT_EQ(weight_after(0), 0.0F); }

TEST_F(WholeStepTest, IsDecidedByTheirNextStepWhereThatComesFirst) {
  wire::Give request{.step = step(1, 0, 0), .offset = 0, .count = kServedCount};
  request.step.epoch = kLater;
  request.step.number = 1;
  request.nodes = {{0, 1}};
  table.give(event(std::vector<float>(kServedCount, 1.0F)), request, team, answers);
  EXPECT_EQ(weight_after(1), -2.0F);
}

TEST_F(WholeStepTest, IsTheSameInAnImage) {
  comm::Payload floats;
  const wire::TableImage image = table.save(floats);
  comm::Payload payload("");
  for (std::size_t part = 0; part < floats.parts(); ++part)
    for (const auto& [bytes, owner] : floats.segments(part)) payload.add(bytes, owner);
  FloatParts parts(payload);
  ServedTable copy(image, parts);
  EXPECT_EQ(weight_after(1, copy), -2.0F);
}

TEST_F(WholeStepTest, WorkersOfAnOlderMembershipBeginNothing) {
  wire::MakeTable stale = table_of(optim::sgd({}));
  stale.epoch = 77;
  EXPECT_EQ(message_of([&] { table.begin_epoch(stale, answers); }),
            "a request of generation 0, the table's is 1");
  EXPECT_EQ(weight_after(1), -2.0F);
}

TEST_F(WholeStepTest, StepsThatTheTableCannotComeToAreRefused) {
  EXPECT_EQ(weight_after(1), -2.0F);
  wire::MakeTable third = table_of(optim::sgd({}));
  third.epoch = kLater + 1;
  table.begin_epoch(third, answers);
  EXPECT_EQ(message_of([&] {
              table.align(event(), {"weights", kLater + 1, 7}, answers);
            }),
            "the table has seen 1 steps, and the workers 7");
}

TEST_F(TableTest, ATableWithoutWeightsIsNoneToGoOnWith) {
  EXPECT_EQ(message_of([&] {
              table.align(event(), {"weights", 9, 4}, answers);
            }),
            "table 'weights' has no weights, and the workers have done 4 steps");
}

TEST_F(TableTest, WhoWaitsForALostWorkerIsToldUntilItComesBack) {
  give(0, 1.0F, 1, 0);
  table.lose(1, answers);
  ASSERT_EQ(answers.failures.size(), 1U);
  EXPECT_EQ(answers.failures[0].second, "table 'weights': worker 1 was lost in step 0");
  give(0, 1.0F, 2, 0);
  EXPECT_EQ(answers.failures.size(), 2U);
  give(1, 3.0F, 3, 0);
  give(0, 1.0F, 3, 0);
  EXPECT_EQ(answers.failures.size(), 2U);
  EXPECT_EQ(answers.replies.size(), 2U);
}

TEST_F(TableTest, WhatDoesNotFitIsRefusedAndChangesNothing) {
  give(0, 1.0F, 1, 0);
  const auto refused = [&](const wire::Give& request, std::size_t floats) {
    return message_of<Error>(
        [&] { table.give(event(std::vector<float>(floats)), request, team, answers); });
  };
  wire::Give request{.step = step(1, 0, 1), .offset = 0, .count = kServedCount};
  request.nodes = {{1, 2}};
  EXPECT_EQ(refused(request, 10), "message: 40 bytes, expected 20000 floats");
  request.nodes = {{0, 1}};
  EXPECT_EQ(refused(request, kServedCount), "worker 1: shard 0 is worker 0's, too");
  request.nodes = {{1, 3}};
  EXPECT_EQ(refused(request, kServedCount),
            "worker 1: no sum over shards 1 to 3 is part of a sum over 2");
  request.nodes = {};
  EXPECT_EQ(refused(request, kServedCount), "0 sums of worker 1");
  request.nodes = {{1, 2}};
  request.offset = ~std::uint64_t{0} - 5;
  EXPECT_NE(refused(request, kServedCount).find("the table has 20000 here"), std::string::npos);
  request.offset = 1;
  request.count = 10;
  EXPECT_EQ(refused(request, 10), "floats 1 to 11 are no whole pieces");
  request.offset = 0;
  request.count = optim::kPieceElements;
  EXPECT_EQ(refused(request, optim::kPieceElements),
            "worker 1 gives floats 0 to 16384, others have cut them otherwise");
  give(1, 3.0F, 1, 0);
  settle(1, 1);
  EXPECT_EQ(weight(), -2.0F);
  EXPECT_EQ(message_of([&] {
              table.read(event(), {"weights", 9, 0, 0, 1}, answers);
            }),
            "slot 0, the rule has 0");
  EXPECT_EQ(message_of([&] {
              table.read(event(), {"weights", 9, -1, 5, ~0ULL}, answers);
            }),
            "floats 5 to 4, the table has 20000 here");
  EXPECT_FALSE(table.is(table_of(optim::adam({}))));
  EXPECT_TRUE(table.is(table_of(optim::sgd({}))));
}

TEST(ServedTable, TellsItsSizeBeforeItIsMade) {
  wire::MakeTable request = table_of(optim::adam({}));
  EXPECT_GE(ServedTable::bytes(request), 7 * kServedCount * sizeof(float));
  request.parameters = {{~std::uint64_t{0}, 1.0, 1.0}, {~std::uint64_t{0}, 1.0, 1.0}};
  EXPECT_GE(ServedTable::bytes(request), std::size_t{1} << 60);
}

}  // namespace
}  // namespace lockstep::kvstore
