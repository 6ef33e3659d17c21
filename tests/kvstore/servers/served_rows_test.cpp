// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>

#include "lockstep/kvstore/servers/floats.h"
#include "lockstep/kvstore/servers/pushed_table.h"
#include "lockstep/kvstore/servers/rows_of_tables.h"
#include "lockstep/kvstore/servers/served_table.h"
#include "lockstep/optim/optimizers.h"
#include "tests/kvstore/servers/kept_answers.h"
#include "tests/message.h"

namespace lockstep::kvstore {
namespace {

using testing::KeptAnswers, testing::message_of;

constexpr std::size_t kRows = 10, kWidth = 2;

wire::MakeTable row_table_of(const optim::OptimizerPtr& rule, std::int64_t shards) {
  wire::MakeTable request{.table = "weights", .epoch = 9, .shards = shards};
  request.tables = {{kRows, kWidth, 1.0, 1.0}};
  request.rule = wire::Rule::of(*rule);
  request.compression = "none";
  return request;
}

std::string bytes_of(const std::vector<std::int64_t>& ids, float value) {
  std::string bytes;
  append_bytes({ids, std::vector<float>(ids.size() * kWidth, value)}, bytes);
  return bytes;
}

// A table of ten rows alone, which two workers train, each with one of two shards.
class ServedRowsTest : public ::testing::Test {
 protected:
  static wire::Step step(std::uint64_t epoch, std::uint64_t round, std::uint64_t committed,
                         std::uint32_t worker) {
    return {.table = "weights",
            .epoch = epoch,
            .round = round,
            .committed = committed,
            .number = static_cast<std::int64_t>(round) - 1,
            .rate = 1.0,
            .worker = worker};
  }

  void give(std::uint32_t worker, const std::string& bytes, std::uint64_t round = 1,
            std::uint64_t committed = 0, std::uint64_t epoch = 9) {
    comm::MessageEvent event;
    event.payload = comm::Payload("").add(bytes);
    wire::GiveRows request{.step = step(epoch, round, committed, worker)};
    request.nodes = {{worker, worker + 1}};
    table.give_rows(event, request, team, answers);
  }
  void settle(std::uint64_t epoch = 9) { table.settle({}, {step(epoch, 1, 1, 0)}, answers); }

  // The first float of each row, after the last committed step.
  std::vector<float> weights(std::uint64_t epoch = 9) {
    wire::Access request{.table = "weights", .epoch = epoch, .count = kRows * kWidth, .rows = 0};
    table.read({}, request, answers);
    std::vector<float> all(kRows * kWidth), first;
    copy_floats(answers.replies.back().second, 1, all);
    for (std::size_t row = 0; row < kRows; ++row) first.push_back(all[row * kWidth]);
    return first;
  }

  ServedTable table{row_table_of(optim::sgd({}), 2)};
  KeptAnswers answers;
  ThreadTeam team{1};
};

TEST_F(ServedRowsTest, RowsOfAllWorkersAreAddedAndEverybodyGetsWhatHasChanged) {
  give(0, bytes_of({1, 4}, 2.0F));
  EXPECT_TRUE(answers.replies.empty());
  give(1, bytes_of({4, 9}, 4.0F));
  ASSERT_EQ(answers.replies.size(), 2U);
  const comm::Payload answer = answers.replies[0].second;
  EXPECT_EQ(answer.text(1), answers.replies[1].second.text(1));
  const RowSums rows = rows_in(answer.text(1), {{.rows = kRows, .width = kWidth}})[0];
  EXPECT_EQ(rows.ids, (std::vector<std::int64_t>{1, 4, 9}));
  EXPECT_EQ(rows.rows, (std::vector<float>{-1, -1, -3, -3, -2, -2}));
  EXPECT_EQ(weights(), std::vector<float>(kRows));
  settle();
  EXPECT_EQ(weights(), (std::vector<float>{0, -1, 0, 0, -3, 0, 0, 0, 0, -2}));
}

// One worker died with the news that the step counts; the others do it again.
TEST_F(ServedRowsTest, AStepThatWorkersDoAgainInANewEpochIsTakenBack) {
  give(0, bytes_of({1}, 2.0F)), give(1, bytes_of({4}, 4.0F));
  settle();
  wire::MakeTable again = row_table_of(optim::sgd({}), 2);
  again.epoch = 10;
  table.begin_epoch(again, answers);
  give(0, bytes_of({1}, 6.0F), 1, 0, 10), give(1, bytes_of({5}, 8.0F), 1, 0, 10);
  settle(10);
  EXPECT_EQ(weights(10), (std::vector<float>{0, -3, 0, 0, 0, -4, 0, 0, 0, 0}));
}

TEST_F(ServedRowsTest, ABackupHasTheStepUnderWayToo) {
  give(0, bytes_of({1}, 2.0F)), give(1, bytes_of({4}, 4.0F));
  comm::Payload floats(std::string_view{});
  const wire::TableImage image = table.save(floats);
  FloatParts parts(floats);
  ServedTable backup(image, parts);
  table = std::move(backup);
  settle();
  EXPECT_EQ(weights(), (std::vector<float>{0, -1, 0, 0, -2, 0, 0, 0, 0, 0}));
}

TEST_F(ServedRowsTest, WhatDoesNotFitIsRefusedAndChangesNothing) {
  EXPECT_THROW(give(0, bytes_of({4, 10}, 1.0F)), Corrupt);
  EXPECT_THROW(give(0, bytes_of({4, 4}, 1.0F)), Corrupt);
  EXPECT_THROW(give(0, bytes_of({4}, 1.0F) + "more"), Corrupt);
  EXPECT_THROW(give(0, "few"), Corrupt);
  give(0, bytes_of({4}, 2.0F)), give(1, bytes_of({}, 0.0F));
  settle();
  EXPECT_EQ(weights(), (std::vector<float>{0, 0, 0, 0, -1, 0, 0, 0, 0, 0}));
}

TEST(PushedRows, AnAnswerHasTheRowsThatHaveChangedSinceTheWorkerLookedLast) {
  PushedTable table(row_table_of(optim::sgd({}), 1));
  KeptAnswers answers;
  ThreadTeam team(1);
  const auto push = [&](std::uint32_t worker, std::int64_t ticket, std::uint64_t seen,
                        const std::vector<std::int64_t>& ids, float value) {
    comm::MessageEvent event;
    event.payload = comm::Payload("").add(std::string()).add(bytes_of(ids, value));
    const wire::PushGradient request{.table = "weights",
                                     .epoch = 9,
                                     .worker = worker,
                                     .ticket = ticket,
                                     .seen = seen,
                                     .rate = 1.0};
    table.push(event, request, team, answers);
    return rows_in(answers.replies.back().second.text(2), {{.rows = kRows, .width = kWidth}})[0];
  };
  EXPECT_EQ(push(0, 0, 0, {3}, 1.0F).ids, (std::vector<std::int64_t>{3}));
  const RowSums second = push(1, 1, 0, {3, 5}, 2.0F);
  EXPECT_EQ(second.ids, (std::vector<std::int64_t>{3, 5}));
  EXPECT_EQ(second.rows, (std::vector<float>{-3, -3, -2, -2}));
  EXPECT_EQ(push(1, 2, 2, {7}, 1.0F).ids, (std::vector<std::int64_t>{7}));
  EXPECT_EQ(push(0, 3, 1, {0}, 1.0F).ids, (std::vector<std::int64_t>{0, 3, 5, 7}));
  EXPECT_EQ(message_of([&] { push(0, 4, 1, {0}, std::numeric_limits<float>::infinity()); }),
            "the gradient of ticket 4 of worker 0 is not finite");
}

}  // namespace
}  // namespace lockstep::kvstore
