// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/detail/fit_state.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lockstep/base/error.h"
#include "tests/kvstore/fake_group.h"
#include "tests/message.h"

namespace lockstep::train::detail {
namespace {

using lockstep::testing::message_of;

// Whose workers have these configurations.
class Told final : public testing::FakeGroup {
 public:
  explicit Told(std::vector<std::string> all)
      : FakeGroup(0, static_cast<int>(all.size())), all_(std::move(all)) {}
  std::vector<std::string> share(const std::string&) override { return all_; }

 private:
  std::vector<std::string> all_;
};

TEST(FitState, OfConfigurationsThatDifferBetweenWorkersEachKeyIsNamedWithBothValues) {
  const std::string first =
      R"({"batch": 64, "optimizer": {"rate": 0.1, "rule": "sgd"}, "seed": 1})";
  const std::string other =
      R"({"batch": 32, "optimizer": {"rate": 0.2, "rule": "sgd"}, "seed": 1})";
  Told same({first, first}), different({first, first, other});
  check_same_configuration(same, first);
  EXPECT_EQ(message_of<InvalidArgument>([&] { check_same_configuration(different, first); }),
            "configuration: batch is 64 on worker 0, 32 on worker 2; optimizer.rate is 0.1 on "
            "worker 0, 0.2 on worker 2");
}

TEST(FitState, AnOlderCheckpointHasItsWholeHistory) {
  const FitState state = FitState::from_json(
      R"({"loss_sum": 1.5, "accuracy_sum": 0, "last_loss": 0, "last_accuracy": 0,
          "history": [{"step": 4, "epoch": 1, "metrics": [["loss", 0.25]]}]})",
      "run");
  EXPECT_EQ(state.missing_before, 0U);
  ASSERT_EQ(state.history.size(), 1U);
  EXPECT_EQ(state.history[0].metric("loss"), 0.25);
}

TEST(FitState, WhatIsNotFiniteIsReadAsItWas) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  FitState state;
  state.loss_sum = kInfinity;
  state.last_loss = std::numeric_limits<double>::quiet_NaN();
  state.history.push_back(
      {.step = 1, .epoch = 1, .metrics = {{"a", kInfinity}, {"b", -kInfinity}}});
  const FitState read = FitState::from_json(state.to_json(), "run");
  EXPECT_EQ(read.loss_sum, kInfinity);
  EXPECT_TRUE(std::isnan(read.last_loss));
  EXPECT_EQ(read.history.at(0).metrics, state.history[0].metrics);
  EXPECT_EQ(records_from(lines_of(state.history), "h").at(0).metrics, state.history[0].metrics);
  const std::string older = R"({"step": 1, "epoch": 1, "metrics": [["a", null]]})";
  EXPECT_TRUE(std::isnan(records_from(older, "h").at(0).metric("a")));
  const std::string wrong = R"({"step": 1, "epoch": 1, "metrics": [["a", "much"]]})";
  EXPECT_EQ(message_of<Corrupt>([&] { records_from(wrong, "h"); }), "h: line 1 is no evaluation");
}

TEST(FitState, OfALongHistoryTheLastEvaluationsAreWritten) {
  FitState state;
  for (std::int64_t i = 0; i < 1000; ++i)
    state.history.push_back({.step = i, .epoch = 1, .metrics = {{"loss", 0.1 * double(i)}}});
  const FitState read = FitState::from_json(state.to_json(), "run");
  EXPECT_EQ(read.missing_before, 1000 - kRecentEvaluations);
  ASSERT_EQ(read.history.size(), kRecentEvaluations);
  EXPECT_EQ(read.history[0].step, 1000 - std::int64_t{kRecentEvaluations});
  const std::string lines = lines_of(std::span(state.history).first(3));
  EXPECT_EQ(records_from(lines, "h")[2].metrics, state.history[2].metrics);
  EXPECT_EQ(message_of<Corrupt>([&] { records_from(lines + "{\n", "h"); }),
            "h: line 4 is no evaluation");
}

}  // namespace
}  // namespace lockstep::train::detail
