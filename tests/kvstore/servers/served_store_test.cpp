// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

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
    state.handle(event);
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
  ServerState state{2, 1'000'000, 1, answers};
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
  state.worker_lost(1);
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

}  // namespace
}  // namespace lockstep::kvstore
