// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "lockstep/kvstore/servers/batch_messages.h"
#include "lockstep/kvstore/servers/floats.h"
#include "lockstep/kvstore/servers/server_state.h"
#include "lockstep/optim/optimizers.h"
#include "tests/message.h"

namespace lockstep::kvstore {
namespace {

using wire::Topic;

struct AnswersInOrder final : Answers {
  void reply(const comm::MessageEvent&, comm::Payload payload, int) override {
    replies.push_back(std::move(payload));
  }
  void fail(const comm::MessageEvent&, const std::string& why) override { failures.push_back(why); }
  std::vector<comm::Payload> replies;
  std::vector<std::string> failures;
};

// Two workers' store with the key "k" of three floats, all zero, as the server sees it.
class ServedStoreTest : public ::testing::Test {
 protected:
  ServedStoreTest() {
    ask(Topic::join_store, wire::JoinStore{1, 0});
    ask(Topic::join_store, wire::JoinStore{1, 1});
    ask(Topic::init_key, wire::InitKey{1, "k", 3, 1}, {0, 0, 0});
    ask(Topic::set_rule,
        wire::SetRule{1, wire::Rule::of(*optim::sgd({.learning_rate = 1.0})), -1.0});
    EXPECT_EQ(answers.replies.size(), 4U);
    answers.replies.clear();
  }

  template <class Message>
  void ask(Topic topic, const Message& message, const std::vector<float>& floats = {}) {
    comm::MessageEvent event;
    event.topic = static_cast<std::uint32_t>(topic);
    event.payload.add(wire::encode(message));
    const auto kept = std::make_shared<std::vector<float>>(floats);
    if (!floats.empty()) add_floats(event.payload, *kept, kept);
    state->handle(event);
  }

  void push(std::uint32_t worker, std::uint64_t count, float value, bool in_step,
            std::uint64_t bound = wire::kNoBound) {
    ask(Topic::push, wire::Push{{1, "k", worker, count, bound}, in_step, 0, "none"},
        std::vector<float>(3, value));
  }

  float value() {
    ask(Topic::pull, wire::Pull{{1, "k", 0, 0, wire::kNoBound}});
    std::vector<float> values(3);
    copy_floats(answers.replies.back(), 1, values);
    answers.replies.pop_back();
    return values[0];
  }

  AnswersInOrder answers;
  std::unique_ptr<ServerState> state = std::make_unique<ServerState>(2, 1'000'000, 1, answers);
};

TEST_F(ServedStoreTest, APushThatComesTwiceIsAppliedOnce) {
  push(0, 1, 5.0F, false);
  push(0, 1, 5.0F, false);
  EXPECT_EQ(value(), 5.0F);
  EXPECT_EQ(answers.replies.size(), 2U);
  push(0, 3, 5.0F, false);
  ASSERT_EQ(answers.failures.size(), 1U);
  EXPECT_EQ(answers.failures[0], "key k: push 3 of worker 0, expected 2");
}

TEST_F(ServedStoreTest, WorkersInStepWaitForEachOtherAndARepeatedPushCountsOnce) {
  push(0, 1, 1.0F, true);
  push(0, 1, 1.0F, true);
  EXPECT_TRUE(answers.replies.empty());
  EXPECT_EQ(value(), 0.0F);
  push(1, 1, 2.0F, true);
  EXPECT_EQ(value(), 3.0F);
  push(1, 1, 2.0F, true);
  EXPECT_EQ(value(), 3.0F);
}

TEST_F(ServedStoreTest, WhoWaitsForALostWorkersPushIsTold) {
  push(0, 1, 1.0F, true);
  state->worker_lost(1);
  EXPECT_EQ(answers.failures, std::vector<std::string>{"key k: worker 1 was lost"});
  push(0, 1, 1.0F, true);
  push(1, 1, 2.0F, true);
  EXPECT_EQ(value(), 3.0F);
}

TEST_F(ServedStoreTest, APushBeyondTheBoundWaitsForTheSlowest) {
  push(0, 1, 1.0F, false, 1);
  push(0, 2, 1.0F, false, 1);
  push(0, 3, 1.0F, false, 1);
  EXPECT_EQ(answers.replies.size(), 2U);
  EXPECT_EQ(value(), 2.0F);
  push(1, 1, 10.0F, false, 1);
  EXPECT_EQ(answers.replies.size(), 4U);
  EXPECT_EQ(value(), 13.0F);
}

TEST_F(ServedStoreTest, WhatIsReadLaterIsWhatWasThereThen) {
  ask(Topic::pull, wire::Pull{{1, "k", 0, 0, wire::kNoBound}});
  const comm::Payload before = answers.replies.back();
  push(0, 1, 5.0F, false);
  std::vector<float> values(3);
  copy_floats(before, 1, values);
  EXPECT_EQ(values[0], 0.0F);
  EXPECT_EQ(value(), 5.0F);
}

TEST_F(ServedStoreTest, AServerKeepsNoMoreThanItsJobDeclared) {
  ask(Topic::init_key, wire::InitKey{1, "l", 1 << 20, 1}, std::vector<float>(1 << 20));
  ASSERT_EQ(answers.failures.size(), 1U);
  EXPECT_EQ(answers.failures[0], "key l would take 4194304 bytes, and 12 of 1000000 are taken");
  ask(Topic::init_key, wire::InitKey{1, "l", ~0ULL, ~0ULL}, {1});
  ask(Topic::init_key, wire::InitKey{1, "k", 3, 1}, {0, 0, 1});
  EXPECT_EQ(answers.failures.back(), "init: key k is there already, with another value");
  ask(Topic::init_key, wire::InitKey{1, "k", 3, 1}, {0, 0, 0});
  EXPECT_EQ(answers.replies.size(), 1U);
}

// A long value of two workers in step, by parts.
class PartsTest : public ServedStoreTest {
 protected:
  static constexpr std::size_t kFloats = 2 * wire::kFloatsAtOnce + 3;
  PartsTest() {
    state = std::make_unique<ServerState>(2, std::size_t{1} << 30, 1, answers);
    ask(Topic::join_store, wire::JoinStore{1, 0});
    ask(Topic::join_store, wire::JoinStore{1, 1});
    ask(Topic::init_key, wire::InitKey{1, "l", kFloats, 1}, std::vector<float>(kFloats));
    answers.replies.clear();
  }
  static std::size_t floats_of(std::size_t part) {
    return std::min<std::size_t>(wire::kFloatsAtOnce, kFloats - part * wire::kFloatsAtOnce);
  }
  void push_part(std::uint32_t worker, std::uint64_t count, std::size_t part, float value,
                 bool pulls = false) {
    wire::Push request;
    request.clock = {1, "l", worker, count, wire::kNoBound};
    request.compression = "none";
    request.offset = part * wire::kFloatsAtOnce;
    request.count = floats_of(part);
    request.pulls = pulls;
    ask(Topic::push, request, std::vector<float>(floats_of(part), value));
  }
  void push_all(std::uint32_t worker, std::uint64_t count, float value) {
    for (std::size_t part = 0; part < 3; ++part) push_part(worker, count, part, value);
  }
  void ask_for(std::uint64_t count, std::size_t offset, std::size_t floats) {
    ask(Topic::pull, wire::Pull{{1, "l", 0, count, wire::kNoBound}, offset, floats});
  }
  std::vector<float> pulled(std::size_t floats) {
    std::vector<float> values(floats);
    copy_floats(answers.replies.back(), 1, values);
    answers.replies.pop_back();
    return values;
  }
};

TEST_F(PartsTest, CountWhenAllOfThemAreThereInAnyOrder) {
  push_part(0, 1, 2, 1.0F);
  push_part(1, 1, 0, 2.0F);
  push_part(1, 1, 2, 2.0F);
  push_part(0, 1, 0, 1.0F);
  push_part(0, 1, 0, 1.0F);  // again, after it was added
  push_part(1, 1, 1, 2.0F);
  push_part(1, 1, 1, 2.0F);  // again, before it was
  EXPECT_EQ(answers.replies.size(), 5U);
  ask_for(0, 0, kFloats);
  EXPECT_EQ(pulled(kFloats), std::vector<float>(kFloats, 0.0F));
  push_part(0, 1, 1, 1.0F);
  EXPECT_EQ(answers.replies.size(), 7U);
  ask_for(1, 0, kFloats);
  EXPECT_EQ(pulled(kFloats), std::vector<float>(kFloats, 3.0F));
  push_part(1, 1, 1, 2.0F);
  EXPECT_EQ(answers.replies.size(), 8U);
  ask_for(1, kFloats - 4, 4);
  EXPECT_EQ(pulled(4), std::vector<float>(4, 3.0F));
  EXPECT_TRUE(answers.failures.empty());
}

TEST_F(PartsTest, APullThatOvertakesItsPushWaitsForIt) {
  ask_for(1, kFloats - 2, 2);
  push_all(0, 1, 1.0F);
  EXPECT_TRUE(answers.replies.empty());
  push_all(1, 1, 2.0F);
  ASSERT_EQ(answers.replies.size(), 7U);
  EXPECT_EQ(pulled(2), std::vector<float>(2, 3.0F));
}

TEST_F(PartsTest, WhoWaitsForALostWorkersPartsIsTold) {
  push_all(0, 1, 1.0F);
  push_part(1, 1, 1, 2.0F);
  state->worker_lost(0);  // all of its own is here
  EXPECT_TRUE(answers.failures.empty());
  state->worker_lost(1);
  EXPECT_EQ(answers.failures, std::vector<std::string>(2, "key l: worker 1 was lost"));
  push_all(1, 1, 2.0F);
  push_all(0, 1, 1.0F);
  ask_for(1, 0, 5);
  EXPECT_EQ(pulled(5), std::vector<float>(5, 3.0F));
}

// A backup that is filled in the middle of a round: it has the sums that are made, and is sent what
// waits.
TEST_F(PartsTest, ABackupThatIsFilledInARoundEndsItAsThePrimary) {
  push_part(0, 1, 0, 1.0F);
  push_part(1, 1, 0, 2.0F);
  push_part(0, 1, 1, 1.0F);
  auto backup = std::make_unique<ServerState>(2, std::size_t{1} << 30, 1, answers);
  backup->load(state->save());
  for (const comm::MessageEvent& event : state->waiting()) backup->handle(event);
  state = std::move(backup);
  push_part(1, 1, 1, 2.0F);
  push_part(0, 1, 2, 1.0F);
  push_part(1, 1, 2, 2.0F);
  push_all(0, 1, 1.0F);  // what was not answered comes again
  ask_for(1, 0, kFloats);
  EXPECT_EQ(pulled(kFloats), std::vector<float>(kFloats, 3.0F));
  EXPECT_TRUE(answers.failures.empty());
}

// Without a rule the sum of a part is what it becomes: whoever pulls it need not wait for the rest,
// and what others read is the old value, until all parts are there.
TEST_F(PartsTest, APushThatPullsIsAnsweredByTheSumOfItsPart) {
  for (const std::uint64_t round : {1, 2}) {
    const auto sum = static_cast<float>(3 * round);
    for (const std::size_t part : {1, 0, 2}) {
      push_part(0, round, part, static_cast<float>(round), true);
      EXPECT_EQ(answers.replies.size(), 0U);
      ask_for(0, part * wire::kFloatsAtOnce, 2);
      EXPECT_EQ(pulled(2), std::vector<float>(2, sum - 3));
      push_part(1, round, part, static_cast<float>(2 * round), part != 0);
      ASSERT_EQ(answers.replies.size(), 2U);
      if (part != 0) {
        EXPECT_EQ(pulled(floats_of(part)), std::vector<float>(floats_of(part), sum));
      }
      answers.replies.resize(1);
      EXPECT_EQ(pulled(floats_of(part)), std::vector<float>(floats_of(part), sum));
    }
    push_part(1, round, 1, 100.0F, true);  // again
    EXPECT_EQ(pulled(floats_of(1)), std::vector<float>(floats_of(1), sum));
    ask_for(round, 0, kFloats);
    EXPECT_EQ(pulled(kFloats), std::vector<float>(kFloats, sum));
  }
  EXPECT_TRUE(answers.failures.empty());
}

TEST_F(PartsTest, APushThatPullsWaitsForTheRuleAndForAllParts) {
  ask(Topic::set_rule, wire::SetRule{1, wire::Rule::of(*optim::sgd({.learning_rate = 1.0})), -1.0});
  answers.replies.clear();
  for (const std::size_t part : {0, 1, 2}) {
    EXPECT_TRUE(answers.replies.empty());
    push_part(0, 1, part, 1.0F, true);
    push_part(1, 1, part, 2.0F, true);
  }
  ASSERT_EQ(answers.replies.size(), 6U);
  answers.replies.resize(2);  // of the first part
  EXPECT_EQ(pulled(floats_of(0)), std::vector<float>(floats_of(0), 3.0F));
  EXPECT_EQ(pulled(floats_of(0)), std::vector<float>(floats_of(0), 3.0F));
}

TEST_F(PartsTest, WhatWasAnsweredAheadOfALossHasChangedNothing) {
  push_part(0, 1, 0, 1.0F, true);
  push_part(1, 1, 0, 2.0F, true);
  push_part(0, 1, 1, 1.0F, true);
  answers.replies.clear();
  state->worker_lost(1);
  EXPECT_EQ(answers.failures, std::vector<std::string>{"key l: worker 1 was lost"});
  ask_for(0, 0, kFloats);
  EXPECT_EQ(pulled(kFloats), std::vector<float>(kFloats, 0.0F));
  push_all(1, 1, 5.0F);
  push_all(0, 1, 1.0F);
  ask_for(1, 0, kFloats);
  EXPECT_EQ(pulled(kFloats), std::vector<float>(kFloats, 6.0F));
}

TEST_F(PartsTest, ABackupThatIsFilledAfterAnswersWentAheadEndsTheRoundAsThePrimary) {
  push_part(0, 1, 0, 1.0F, true);
  push_part(1, 1, 0, 2.0F, true);
  push_part(0, 1, 1, 1.0F, true);
  auto backup = std::make_unique<ServerState>(2, std::size_t{1} << 30, 1, answers);
  backup->load(state->save());
  for (const comm::MessageEvent& event : state->waiting()) backup->handle(event);
  state = std::move(backup);
  answers.replies.clear();
  push_part(1, 1, 0, 2.0F, true);  // again: here its sum waits for the other parts
  EXPECT_TRUE(answers.replies.empty());
  push_part(1, 1, 1, 2.0F, true);
  push_part(0, 1, 2, 1.0F, true);
  push_part(1, 1, 2, 2.0F, true);
  EXPECT_EQ(answers.replies.size(), 5U);
  ask_for(1, 0, kFloats);
  EXPECT_EQ(pulled(kFloats), std::vector<float>(kFloats, 3.0F));
  EXPECT_TRUE(answers.failures.empty());
}

TEST_F(PartsTest, WhatIsNoPartIsRefused) {
  const auto refused = [&](std::size_t offset, std::size_t floats, bool in_step = true) {
    wire::Push request;
    request.clock = {1, "l", 0, 1, wire::kNoBound};
    request.in_step = in_step;
    request.compression = "none";
    request.offset = offset;
    request.count = floats;
    ask(Topic::push, request, std::vector<float>(floats));
    return answers.failures.back();
  };
  EXPECT_EQ(refused(1, wire::kFloatsAtOnce),
            fmt::format("key l: floats 1 to {} of {} are not pushed by themselves",
                        wire::kFloatsAtOnce + 1, kFloats));
  EXPECT_EQ(refused(0, wire::kFloatsAtOnce, false),
            fmt::format("key l: floats 0 to {} of {} are not pushed by themselves",
                        wire::kFloatsAtOnce, kFloats));
  EXPECT_EQ(refused(2 * wire::kFloatsAtOnce, 4),
            fmt::format("key l: floats {} to {}, the value has {} here", 2 * wire::kFloatsAtOnce,
                        2 * wire::kFloatsAtOnce + 4, kFloats));
  ask_for(0, ~0ULL, 2);
  EXPECT_TRUE(answers.failures.back().ends_with(fmt::format("the value has {} here", kFloats)));
  wire::Push pulls;
  pulls.clock = {1, "l", 0, 1, wire::kNoBound};
  pulls.in_step = false;
  pulls.compression = "none";
  pulls.pulls = true;
  ask(Topic::push, pulls, std::vector<float>(kFloats));
  EXPECT_EQ(answers.failures.back(), "key l: a push that pulls, of a worker that is not in step");
}

// Requests that came in one message.
class BatchTest : public ServedStoreTest {
 protected:
  void ask_batch(Topic topic, const wire::Batch& batch, const std::vector<float>& floats = {}) {
    ask(topic, batch, floats);
  }
  static wire::BatchItem push_item(const std::string& key, bool in_step = false) {
    wire::Push push;
    push.clock = {1, key, 0, 1, wire::kNoBound};
    push.in_step = in_step;
    push.compression = "none";
    return {static_cast<std::uint32_t>(Topic::push), wire::encode(push), 3};
  }
  static wire::BatchItem pull_item(const std::string& key) {
    return {static_cast<std::uint32_t>(Topic::pull),
            wire::encode(wire::Pull{{1, key, 0, 0, wire::kNoBound}}), 0};
  }
};

TEST_F(BatchTest, HasOneAnswerAndOneThatFailsDoesNotHinderTheOthers) {
  ask_batch(Topic::batch, {{push_item("k"), push_item("x"), pull_item("k")}}, {1, 2, 3, 4, 5, 6});
  ASSERT_EQ(answers.replies.size(), 1U);
  EXPECT_TRUE(answers.failures.empty());
  const auto answer = wire::decode<wire::BatchAnswer>(answers.replies[0].text(0));
  ASSERT_EQ(answer.outcomes.size(), 3U);
  EXPECT_FALSE(answer.outcomes[0].failed);
  EXPECT_TRUE(answer.outcomes[1].failed);
  EXPECT_EQ(answer.outcomes[1].message, "there is no key x here, expected init() before");
  EXPECT_EQ(answer.outcomes[2].floats, 3U);
  std::vector<float> values(3);
  copy_floats(answers.replies[0], 1, values);
  EXPECT_EQ(values, (std::vector<float>{1, 2, 3}));
}

TEST_F(BatchTest, IsAnsweredWhenTheLastOfItsRequestsIs) {
  ask_batch(Topic::batch, {{push_item("k", true), pull_item("k")}}, {1, 1, 1});
  EXPECT_TRUE(answers.replies.empty());
  push(1, 1, 2.0F, true);
  EXPECT_EQ(answers.replies.size(), 2U);
  EXPECT_EQ(value(), 3.0F);
}

TEST_F(BatchTest, WhatDoesNotFitIsRefused) {
  const auto refused = [&](Topic topic, const wire::Batch& batch,
                           const std::vector<float>& floats = {}) {
    ask_batch(topic, batch, floats);
    return answers.failures.back();
  };
  EXPECT_EQ(refused(Topic::batch, {}), "message: a batch of 0 requests");
  EXPECT_EQ(refused(Topic::batch, {{push_item("k")}}, {1, 2}),
            "message: 8 bytes, expected 3 floats");
  EXPECT_EQ(refused(Topic::read_batch, {{push_item("k")}}, {1, 2, 3}),
            "message: a request of kind 19 in a batch");
  EXPECT_EQ(refused(Topic::batch, {{{26, "", 0}}}), "message: a request of kind 26 in a batch");
  EXPECT_EQ(refused(Topic::batch, {{{19, "", ~0ULL}}}),
            "message: 18446744073709551615 floats in a batch");
  EXPECT_EQ(value(), 0.0F);
}

}  // namespace
}  // namespace lockstep::kvstore
