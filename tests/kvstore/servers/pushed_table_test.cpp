// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/servers/pushed_table.h"

#include <gtest/gtest.h>

#include <limits>

#include "lockstep/kvstore/servers/floats.h"
#include "lockstep/optim/optimizers.h"
#include "tests/kvstore/servers/kept_answers.h"
#include "tests/message.h"

namespace lockstep::kvstore {
namespace {

using testing::KeptAnswers, testing::message_of;

constexpr std::size_t kPushedCount = 20'000;  // two pieces

class PushedTableTest : public ::testing::Test {
 protected:
  static PushedTable table_of(const optim::OptimizerPtr& rule) {
    wire::MakeTable request{.table = "weights", .epoch = 9, .shards = 1};
    request.parameters = {{kPushedCount, 1.0, 1.0}};
    request.rule = wire::Rule::of(*rule);
    request.compression = "none";
    return PushedTable(request);
  }

  static comm::MessageEvent event(float value) {
    comm::MessageEvent event;
    event.payload = comm::Payload("");
    const auto kept = std::make_shared<std::vector<float>>(kPushedCount, value);
    add_floats(event.payload, *kept, kept);
    return event;
  }

  static wire::PushGradient message(std::uint32_t worker, std::int64_t ticket, std::uint64_t seen) {
    return {.table = "weights",
            .epoch = 9,
            .worker = worker,
            .ticket = ticket,
            .seen = seen,
            .rate = 1.0,
            .scale = 0.5};
  }

  // As many older pushes as `fresh` count for nothing.
  void push_damped(PushedTable& table, std::uint32_t worker, std::int64_t ticket,
                   std::uint64_t seen, std::uint64_t fresh) {
    wire::PushGradient request = message(worker, ticket, seen);
    request.fresh = fresh;
    table.push(event(2.0F), request, team, answers);
  }

  wire::PushedGradient push(PushedTable& table, std::uint32_t worker, std::int64_t ticket,
                            std::uint64_t seen, float value) {
    table.push(event(value), message(worker, ticket, seen), team, answers);
    return wire::decode<wire::PushedGradient>(answers.replies.back().second.text(0));
  }

  // The first weight of the last answer; all are the same.
  float weight() const {
    std::vector<float> values(kPushedCount);
    copy_floats(answers.replies.back().second, 1, values);
    EXPECT_EQ(values.front(), values.back());
    return values.front();
  }

  KeptAnswers answers;
  ThreadTeam team{1};
};

TEST_F(PushedTableTest, EachPushIsAppliedAsItComesAndToldHowStaleItWas) {
  PushedTable table = table_of(optim::sgd({}));
  EXPECT_EQ(push(table, 0, 0, 0, 2.0F).staleness, 0U);
  EXPECT_EQ(weight(), -1.0F);
  const wire::PushedGradient second = push(table, 1, 1, 0, 4.0F);
  EXPECT_EQ(second.staleness, 1U);
  EXPECT_EQ(second.version, 2U);
  EXPECT_EQ(weight(), -3.0F);
}

TEST_F(PushedTableTest, AGradientOfOlderWeightsThanUsualCountsForLess) {
  PushedTable table = table_of(optim::sgd({}));
  push_damped(table, 0, 0, 0, 1);
  push_damped(table, 1, 1, 0, 1);  // one push older: usual with two workers
  EXPECT_EQ(weight(), -2.0F);
  push_damped(table, 0, 2, 2, 1);
  push_damped(table, 0, 3, 3, 1);
  EXPECT_EQ(weight(), -4.0F);
  push_damped(table, 2, 4, 1, 1);  // three older
  EXPECT_EQ(weight(), -4.5F);
}

TEST_F(PushedTableTest, APushThatComesAgainIsAppliedOnce) {
  PushedTable table = table_of(optim::sgd({}));
  push(table, 0, 5, 0, 2.0F);
  EXPECT_EQ(push(table, 0, 5, 0, 2.0F).version, 1U);
  EXPECT_EQ(weight(), -1.0F);
}

TEST_F(PushedTableTest, ATicketThatAnotherWorkerPushesAgainIsAppliedOnce) {
  PushedTable table = table_of(optim::sgd({}));
  push(table, 0, 1, 0, 2.0F);
  push(table, 1, 0, 0, 2.0F);
  EXPECT_EQ(weight(), -2.0F);
  table.begin_epoch(10);
  const auto again = [&](std::int64_t ticket) {
    wire::PushGradient request = message(2, ticket, 2);
    request.epoch = 10;
    request.before = 1;  // as its first push said, not as this one does
    table.push(event(2.0F), request, team, answers);
    return wire::decode<wire::PushedGradient>(answers.replies.back().second.text(0)).version;
  };
  EXPECT_EQ(again(0), 2U);
  EXPECT_EQ(again(1), 2U);
  EXPECT_EQ(weight(), -2.0F);
  EXPECT_EQ(again(2), 3U);
  EXPECT_EQ(weight(), -3.0F);
  EXPECT_EQ(message_of([&] { push(table, 0, 3, 0, 2.0F); }),
            "a request of another membership: its epoch is 9, the table's 10");
}

TEST_F(PushedTableTest, AnImageKnowsWhatWasApplied) {
  PushedTable table = table_of(optim::sgd({}));
  push(table, 0, 0, 0, 2.0F);
  push(table, 0, 2, 1, 2.0F);
  table.begin_epoch(9);
  comm::Payload numbers, whole("");
  const wire::PushedImage image = table.save(numbers);
  for (std::size_t part = 0; part < numbers.parts(); ++part)
    for (const auto& [bytes, owner] : numbers.segments(part)) whole.add(bytes, owner);
  FloatParts floats(whole);
  PushedTable backup(image, floats);
  EXPECT_EQ(push(backup, 1, 2, 2, 2.0F).version, 2U);
  EXPECT_EQ(push(backup, 1, 0, 2, 2.0F).version, 2U);
  EXPECT_EQ(weight(), -2.0F);
  EXPECT_EQ(push(backup, 1, 1, 2, 2.0F).version, 3U);
}

TEST_F(PushedTableTest, ARuleThatMeasuresMeasuresATicketAgainThatOtherServersLack) {
  PushedTable table = table_of(optim::lars({}));
  table.write(event(1.0F), {"weights", 9, -1, 0, kPushedCount}, answers);
  push(table, 0, 0, 0, 2.0F);
  table.finish({}, {message(0, 0, 0), {{4.0, 4.0}}}, team, answers);
  const float once = weight();
  EXPECT_EQ(push(table, 1, 0, 1, 3.0F).norms.size(), 2U);
  table.finish({}, {message(1, 0, 1), {{4.0, 4.0}}}, team, answers);
  EXPECT_EQ(weight(), once);
}

TEST_F(PushedTableTest, ARuleThatMeasuresIsFinishedWithTheNormsOfAllServers) {
  const optim::OptimizerPtr rule = optim::lars({});
  PushedTable table = table_of(rule);
  table.write(event(1.0F), {"weights", 9, -1, 0, kPushedCount}, answers);
  const wire::PushedGradient pushed = push(table, 0, 0, 0, 2.0F);
  ASSERT_EQ(pushed.norms.size(), 2U);
  EXPECT_EQ(pushed.version, 0U);
  double sum = 0.0;
  for (const wire::Norms& norms : pushed.norms) sum += norms.weight;
  EXPECT_DOUBLE_EQ(sum, static_cast<double>(kPushedCount));
  push(table, 1, 1, 0, 3.0F);  // another worker's gradient waits at the same time
  const wire::FinishGradient finish{message(0, 0, 0), {{4.0 * sum, 4.0 * kPushedCount}}};
  table.finish({}, finish, team, answers);
  const float once = weight();
  EXPECT_LT(once, 1.0F);
  table.finish({}, finish, team, answers);
  EXPECT_EQ(weight(), once);
}

TEST_F(PushedTableTest, WhatDoesNotFitChangesNothing) {
  PushedTable table = table_of(optim::sgd({}));
  EXPECT_EQ(message_of([&] { push(table, 1, 3, 0, std::numeric_limits<float>::quiet_NaN()); }),
            "the gradient of ticket 3 of worker 1 is not finite");
  EXPECT_EQ(message_of([&] { push(table, 1, 3, 8, 1.0F); }),
            "worker 1 has seen version 8 of the weights, there are 0");
  comm::MessageEvent empty;
  empty.payload = comm::Payload("");
  EXPECT_THROW(table.push(empty, message(0, 0, 0), team, answers), Corrupt);
  EXPECT_EQ(message_of([&] {
              table.finish({}, {message(0, 0, 0), {}}, team, answers);
            }),
            "ticket 0 of worker 0 has no gradient here");
  EXPECT_EQ(push(table, 0, 0, 0, 2.0F).version, 1U);
  EXPECT_EQ(weight(), -1.0F);
}

}  // namespace
}  // namespace lockstep::kvstore
