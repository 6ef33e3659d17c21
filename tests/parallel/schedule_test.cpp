// SPDX-License-Identifier: Apache-2.0
#include "lockstep/parallel/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "tests/message.h"

namespace lockstep::parallel {
namespace {

using testing::message_of;
using Kind = Action::Kind;

constexpr const char* kSound = "nothing was thrown";

std::string refused(const Schedule& schedule, std::int64_t limit = 0) {
  return message_of<InvalidArgument>([&] { verify(schedule, limit); });
}

std::size_t place_of(const std::vector<Action>& actions, Action action) {
  return static_cast<std::size_t>(std::find(actions.begin(), actions.end(), action) -
                                  actions.begin());
}

constexpr ScheduleKind kWholePasses[] = {ScheduleKind::gpipe, ScheduleKind::one_f_one_b};

TEST(Schedule, OfEveryKindAndSizeIsSound) {
  for (const ScheduleKind kind : kWholePasses)
    for (int stages = 1; stages <= 5; ++stages)
      for (std::int64_t shards = 1; shards <= 9; ++shards) {
        const Schedule schedule = make_schedule(kind, stages, shards);
        EXPECT_NO_THROW(verify(schedule)) << to_string(kind) << stages << shards;
        for (int stage = 0; stage < stages; ++stage)
          EXPECT_EQ(most_under_way(schedule.stages[static_cast<std::size_t>(stage)]),
                    kind == ScheduleKind::gpipe ? shards
                                                : std::min<std::int64_t>(stages - stage, shards));
      }
}

// (stages - 1) / (shards + stages - 1), where all stages take as long.
TEST(Schedule, WaitsAsLongAsTheFormulaSays) {
  for (const ScheduleKind kind : kWholePasses)
    for (const int stages : {1, 2, 4})
      for (const std::int64_t shards : {4, 16}) {
        const Timeline timeline =
            simulate(make_schedule(kind, stages, shards),
                     std::vector<StageTimes>(static_cast<std::size_t>(stages)));
        const double formula = (stages - 1.0) / (static_cast<double>(shards) + stages - 1.0);
        EXPECT_NEAR(timeline.bubble(), formula, 1e-9);
      }
}

TEST(Schedule, WithoutBubblesIsSoundAndKeepsNoMoreThanTheFirstStageOf1f1b) {
  for (const bool at_once : {false, true})
    for (int stages = 1; stages <= 6; ++stages)
      for (std::int64_t shards = 1; shards <= 12; ++shards) {
        const Schedule schedule = make_schedule(ScheduleKind::zero_bubble, stages, shards, at_once);
        EXPECT_NO_THROW(verify(schedule, std::min<std::int64_t>(stages, shards)))
            << stages << " stages, " << shards << " shards";
        for (const std::vector<Action>& actions : schedule.stages)
          for (std::int64_t shard = 0; shard < shards && at_once; ++shard)
            EXPECT_EQ(place_of(actions, {Kind::weights, shard}),
                      place_of(actions, {Kind::backward, shard}) +
                          (&actions == &schedule.stages[0] ? 1 : 2));
      }
}

// Every pass and half of one takes as long; a first stage has no gradients to send.
std::vector<StageTimes> even_halves(int stages) {
  std::vector<StageTimes> times(static_cast<std::size_t>(stages));
  times[0].weights_part = 1.0;
  return times;
}

// (stages - 1) / (3 shards + stages - 1) where the last stage waits for its first values alone; the
// first stage's backward passes in one piece may cost two halves more.
TEST(Schedule, WithoutBubblesWaitsForLittleMoreThanTheFirstValues) {
  for (const int stages : {2, 3, 4, 8})
    for (const std::int64_t shards : {16, 32}) {
      const auto waits = [&](ScheduleKind kind) {
        return simulate(make_schedule(kind, stages, shards), even_halves(stages)).bubble();
      };
      const auto formula = [&](double idle) {
        return idle / (3.0 * static_cast<double>(shards) + idle);
      };
      EXPECT_GE(waits(ScheduleKind::zero_bubble), formula(stages - 1.0) - 1e-9) << stages;
      EXPECT_LE(waits(ScheduleKind::zero_bubble), formula(stages + 1.0) + 1e-9) << stages;
      EXPECT_LT(waits(ScheduleKind::zero_bubble), waits(ScheduleKind::one_f_one_b));
    }
}

TEST(Schedule, WhoseWeightsDoNotAscendOrComeTooEarlyIsRefused) {
  Schedule schedule = make_schedule(ScheduleKind::zero_bubble, 1, 2);
  schedule.stages[0] = {{Kind::forward, 0},  {Kind::forward, 1}, {Kind::backward, 0},
                        {Kind::backward, 1}, {Kind::weights, 1}, {Kind::weights, 0}};
  EXPECT_EQ(refused(schedule),
            "schedule: stage 0 makes the weights' gradients of shard 0 after shard 1: expected "
            "ascending shards");
  schedule.stages[0] = {{Kind::forward, 0}, {Kind::weights, 0},  {Kind::backward, 0},
                        {Kind::forward, 1}, {Kind::backward, 1}, {Kind::weights, 1}};
  EXPECT_EQ(refused(schedule),
            "schedule: stage 0 makes the weights' gradients of shard 0 out of turn");
  schedule.stages[0].erase(schedule.stages[0].begin() + 1);
  EXPECT_EQ(refused(schedule), "schedule: stage 0 does not finish shard 0");
  EXPECT_EQ(refused(make_schedule(ScheduleKind::zero_bubble, 4, 8), 3),
            "schedule: stage 0 has 4 shards under way, the limit is 3");
}

TEST(Schedule, ThatWouldWaitForEverIsRefused) {
  Schedule schedule = make_schedule(ScheduleKind::one_f_one_b, 2, 3);
  // Stage 0 wants the first gradients before it has sent the values that make them.
  std::vector<Action>& first = schedule.stages[0];
  const std::size_t sends = place_of(first, {Kind::send_values, 0});
  const std::size_t receives = place_of(first, {Kind::receive_gradients, 0});
  std::rotate(first.begin() + static_cast<std::ptrdiff_t>(sends),
              first.begin() + static_cast<std::ptrdiff_t>(receives),
              first.begin() + static_cast<std::ptrdiff_t>(receives) + 1);
  EXPECT_EQ(refused(schedule), "schedule: stage 0 receives the gradients of shard 0 out of turn");
  // Each stage's own order is right, and yet they wait for one another.
  Schedule crossed = make_schedule(ScheduleKind::gpipe, 3, 2);
  std::vector<Action>& middle = crossed.stages[1];
  middle = make_schedule(ScheduleKind::one_f_one_b, 3, 2).stages[1];
  EXPECT_EQ(refused(crossed), kSound);
  std::vector<Action>& last = crossed.stages[2];
  last = {{Kind::receive_values, 0}, {Kind::forward, 0},        {Kind::backward, 0},
          {Kind::send_gradients, 0}, {Kind::receive_values, 1}, {Kind::forward, 1},
          {Kind::backward, 1},       {Kind::send_gradients, 1}};
  EXPECT_EQ(refused(crossed), kSound);
  middle = {{Kind::receive_values, 0},    {Kind::forward, 0},  {Kind::send_values, 0},
            {Kind::receive_gradients, 0}, {Kind::backward, 0}, {Kind::send_gradients, 0},
            {Kind::receive_values, 1},    {Kind::forward, 1},  {Kind::send_values, 1},
            {Kind::receive_gradients, 1}, {Kind::backward, 1}, {Kind::send_gradients, 1}};
  last = make_schedule(ScheduleKind::gpipe, 3, 2).stages[2];
  EXPECT_EQ(refused(crossed),
            "schedule: would wait for ever where stage 0 receives the gradients of shard 0");
}

TEST(Schedule, WithAPassTooManyOrTooFewIsRefused) {
  Schedule schedule = make_schedule(ScheduleKind::one_f_one_b, 2, 3);
  schedule.stages[1].pop_back();
  EXPECT_EQ(refused(schedule), "schedule: stage 1 does not finish shard 2");
  schedule = make_schedule(ScheduleKind::one_f_one_b, 2, 3);
  schedule.stages[0].push_back({Kind::forward, 0});
  EXPECT_EQ(refused(schedule), "schedule: stage 0 runs forward shard 0 out of turn");
  schedule = make_schedule(ScheduleKind::one_f_one_b, 2, 3);
  schedule.stages[0].push_back({Kind::forward, 3});
  EXPECT_EQ(refused(schedule), "schedule: stage 0 runs forward shard 3 out of turn");
}

TEST(Schedule, WhoseBackwardPassesDoNotAscendIsRefused) {
  Schedule schedule = make_schedule(ScheduleKind::gpipe, 1, 3);
  std::vector<Action>& only = schedule.stages[0];
  std::swap(only[place_of(only, {Kind::backward, 0})], only[place_of(only, {Kind::backward, 1})]);
  EXPECT_EQ(refused(schedule),
            "schedule: stage 0 runs backward shard 0 after shard 1: expected ascending shards");
}

TEST(Schedule, WhoseLinksHaveTwoOrdersIsRefused) {
  Schedule schedule = make_schedule(ScheduleKind::gpipe, 2, 2);
  schedule.stages[0] = {{Kind::forward, 1},           {Kind::send_values, 1},
                        {Kind::forward, 0},           {Kind::send_values, 0},
                        {Kind::receive_gradients, 0}, {Kind::backward, 0},
                        {Kind::receive_gradients, 1}, {Kind::backward, 1}};
  EXPECT_EQ(refused(schedule),
            "schedule: stage 0 sends the values of shard 1, where stage 1 receives the values of "
            "shard 0");
}

TEST(Schedule, ThatKeepsMoreThanTheLimitIsRefused) {
  EXPECT_EQ(refused(make_schedule(ScheduleKind::one_f_one_b, 4, 8), 4), kSound);
  EXPECT_EQ(refused(make_schedule(ScheduleKind::gpipe, 4, 8), 4),
            "schedule: stage 0 has 8 shards under way, the limit is 4");
}

TEST(Schedule, HasATimelineToLookAt) {
  const Timeline timeline =
      simulate(make_schedule(ScheduleKind::one_f_one_b, 2, 2), {{1.0, 1.0}, {1.0, 1.0}});
  EXPECT_EQ(timeline_text(timeline, 6).substr(0, 32), "stage 0  01.a.b\nstage 1  .0a1b.\n");
  const std::string svg = timeline_svg(timeline);
  EXPECT_TRUE(svg.starts_with("<svg"));
  EXPECT_NE(svg.find("backward of shard 1"), std::string::npos);
  const Timeline split =
      simulate(make_schedule(ScheduleKind::zero_bubble, 2, 2), {{1.0, 2.0, 1.0}, {1.0, 2.0}});
  EXPECT_EQ(timeline_text(split, 7).substr(0, 34), "stage 0  01.AABB\nstage 1  .0a1bAB\n");
  EXPECT_NE(timeline_svg(split).find("weights' gradients of shard 1"), std::string::npos);
}

TEST(Schedule, IsKnownByItsName) {
  EXPECT_EQ(parse_schedule("1f1b"), ScheduleKind::one_f_one_b);
  EXPECT_EQ(to_string(parse_schedule("zero-bubble")), "zero-bubble");
  EXPECT_EQ(message_of<InvalidArgument>([] { parse_schedule("2f2b"); }),
            "schedule '2f2b': expected 1f1b, zero-bubble or gpipe");
}

}  // namespace
}  // namespace lockstep::parallel
