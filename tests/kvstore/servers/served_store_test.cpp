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

struct KeptAnswers final : Answers {
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

  KeptAnswers answers;
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
  void push_part(std::uint32_t worker, std::uint64_t count, std::size_t part, float value) {
    const std::size_t offset = part * wire::kFloatsAtOnce;
    const std::size_t floats = std::min<std::size_t>(wire::kFloatsAtOnce, kFloats - offset);
    ask(Topic::push,
        wire::Push{{1, "l", worker, count, wire::kNoBound}, true, 0, "none", offset, floats},
        std::vector<float>(floats, value));
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

TEST_F(PartsTest, WhatIsNoPartIsRefused) {
  const auto refused = [&](std::size_t offset, std::size_t floats, bool in_step = true) {
    ask(Topic::push, wire::Push{{1, "l", 0, 1, wire::kNoBound}, in_step, 0, "none", offset, floats},
        std::vector<float>(floats));
    return answers.failures.back();
  };
  EXPECT_EQ(refused(1, wire::kFloatsAtOnce),
            "key l: floats 1 to 262145 of 524291 are not pushed by themselves");
  EXPECT_EQ(refused(0, wire::kFloatsAtOnce, false),
            "key l: floats 0 to 262144 of 524291 are not pushed by themselves");
  EXPECT_EQ(refused(2 * wire::kFloatsAtOnce, 4),
            "key l: floats 524288 to 524292, the value has 524291 here");
  ask_for(0, ~0ULL, 2);
  EXPECT_TRUE(answers.failures.back().ends_with("the value has 524291 here"));
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
