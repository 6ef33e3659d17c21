// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/membership/detail/generation_keeper.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/cluster/membership/alignment.h"

namespace lockstep::cluster::detail {
namespace {

using std::chrono::milliseconds;

GenerationKeeper keeper_of(int workers, const GenerationLimits& limits = {}) {
  GenerationKeeper keeper(limits);
  Membership first{.generation = 1};
  for (int id = 0; id < workers; ++id) first.members.push_back({.id = id});
  keeper.begin_with(first);
  return keeper;
}

template <class T>
std::vector<T> only(const std::vector<KeeperAction>& actions) {
  std::vector<T> found;
  for (const KeeperAction& action : actions)
    if (const auto* one = std::get_if<T>(&action)) found.push_back(*one);
  return found;
}

std::vector<std::int64_t> ids_of(const Membership& membership) {
  std::vector<std::int64_t> ids;
  for (const Member& member : membership.members) ids.push_back(member.id);
  return ids;
}

using Ids = std::vector<std::int64_t>;

TEST(GenerationKeeper, ALossInterruptsTheOthersAtOnceAndTheyGoOnWhenAllHaveReported) {
  GenerationKeeper keeper = keeper_of(3);
  keeper.lose(1, "killed", milliseconds(0));
  const auto interrupts = only<Interrupt>(keeper.take_actions());
  ASSERT_EQ(interrupts.size(), 2U);
  EXPECT_TRUE(interrupts[0].is_urgent && interrupts[1].is_urgent);
  keeper.report(0, {.generation = 1}, milliseconds(5));
  EXPECT_TRUE(only<Begin>(keeper.take_actions()).empty());
  keeper.report(2, {.generation = 1}, milliseconds(9));
  const auto begins = only<Begin>(keeper.take_actions());
  ASSERT_EQ(begins.size(), 1U);
  EXPECT_EQ(begins[0].membership.generation, 2);
  EXPECT_EQ(ids_of(begins[0].membership), (Ids{0, 2}));
}

TEST(GenerationKeeper, ServersAreInEveryGenerationAndReportToNobody) {
  GenerationKeeper keeper{GenerationLimits{}};
  keeper.begin_with({.generation = 1,
                     .members = {{.id = 0},
                                 {.id = 1},
                                 {.id = 2, .role = Role::server},
                                 {.id = 3, .role = Role::server}}});
  keeper.lose(0, "killed", milliseconds(0));
  keeper.report(1, {.generation = 1}, milliseconds(1));
  const Membership next = only<Begin>(keeper.take_actions()).at(0).membership;
  EXPECT_EQ(ids_of(next), (Ids{1, 2, 3}));
  EXPECT_EQ(next.count(Role::server), 2);
  EXPECT_EQ(next.rank_of(1), 0);
  keeper.report(1, {.generation = 2, .missed = 1}, milliseconds(2));  // it cannot put itself out
  EXPECT_EQ(ids_of(only<Begin>(keeper.take_actions()).at(0).membership), (Ids{1, 2, 3}));
}

TEST(GenerationKeeper, WhoWasPutOutIsRefusedWhateverItSays) {
  GenerationKeeper keeper = keeper_of(2);
  keeper.lose(1, "not heard", milliseconds(0));
  keeper.report(0, {.generation = 1}, milliseconds(1));
  keeper.take_actions();
  EXPECT_FALSE(keeper.is_current(1, 1));
  EXPECT_FALSE(keeper.is_current(0, 1));
  EXPECT_TRUE(keeper.is_current(0, 2));
  keeper.report(1, {.generation = 1}, milliseconds(2));
  const auto dismissed = only<Dismiss>(keeper.take_actions());
  ASSERT_EQ(dismissed.size(), 1U);
  EXPECT_EQ(dismissed[0].kind, Dismiss::Kind::expelled);
  EXPECT_EQ(ids_of(keeper.membership()), (Ids{0}));
}

TEST(GenerationKeeper, ANewWorkerIsLetInAfterTheStepAndLosesNobodyAnything) {
  GenerationKeeper keeper = keeper_of(2);
  keeper.add(5, "localhost");
  EXPECT_TRUE(keeper.take_actions().empty());
  keeper.report(5, {.generation = 0, .has_state = false}, milliseconds(0));
  for (const Interrupt& one : only<Interrupt>(keeper.take_actions())) EXPECT_FALSE(one.is_urgent);
  keeper.report(0, {.generation = 1}, milliseconds(1));
  keeper.report(1, {.generation = 1}, milliseconds(2));
  EXPECT_EQ(ids_of(only<Begin>(keeper.take_actions()).at(0).membership), (Ids{0, 1, 5}));
}

TEST(GenerationKeeper, FewerThanTheMinimumWaitAndSaySo) {
  GenerationKeeper keeper = keeper_of(2, {.min_workers = 2});
  keeper.lose(0, "killed", milliseconds(0));
  keeper.report(1, {.generation = 1}, milliseconds(1));
  auto actions = keeper.take_actions();
  EXPECT_TRUE(only<Begin>(actions).empty());
  const auto notes = only<KeeperNote>(actions);
  EXPECT_TRUE(std::any_of(notes.begin(), notes.end(), [](const KeeperNote& note) {
    return note.kind == KeeperNote::Kind::waiting && note.why == "1 of 2 workers are there";
  }));
  keeper.add(2, "localhost");
  keeper.report(2, {.generation = 0, .has_state = false}, milliseconds(2));
  EXPECT_EQ(ids_of(only<Begin>(keeper.take_actions()).at(0).membership), (Ids{1, 2}));
}

TEST(GenerationKeeper, WhereTheJobIsToStopNobodyIsWaitedForAnyMore) {
  GenerationKeeper keeper = keeper_of(3, {.min_workers = 3});
  keeper.wait_for_nobody(milliseconds(0));
  EXPECT_TRUE(keeper.take_actions().empty());  // they are all there
  keeper = keeper_of(3, {.min_workers = 3});
  keeper.lose(0, "killed", milliseconds(0));
  keeper.report(1, {.generation = 1}, milliseconds(1));
  keeper.wait_for_nobody(milliseconds(2));
  EXPECT_TRUE(only<Begin>(keeper.take_actions()).empty());  // one is still in its step
  keeper.report(2, {.generation = 1}, milliseconds(3));
  EXPECT_EQ(ids_of(only<Begin>(keeper.take_actions()).at(0).membership), (Ids{1, 2}));
  EXPECT_EQ(keeper.state().min_workers, 1);
}

TEST(GenerationKeeper, OneThatDoesNotComeOutOfItsStepIsPutOut) {
  GenerationKeeper keeper = keeper_of(3, {.patience = milliseconds(100)});
  keeper.lose(0, "killed", milliseconds(0));
  keeper.report(1, {.generation = 1}, milliseconds(10));
  keeper.tick(milliseconds(99));
  EXPECT_TRUE(only<Begin>(keeper.take_actions()).empty());
  keeper.tick(milliseconds(100));
  EXPECT_EQ(ids_of(only<Begin>(keeper.take_actions()).at(0).membership), (Ids{1}));
}

TEST(GenerationKeeper, WhereNobodyIsLeftThatHasTheStateTheJobFails) {
  GenerationKeeper keeper = keeper_of(2);
  keeper.add(2, "localhost");
  keeper.report(2, {.generation = 0, .has_state = false}, milliseconds(0));
  keeper.lose(0, "killed", milliseconds(1));
  keeper.lose(1, "killed", milliseconds(2));
  EXPECT_EQ(only<FailJob>(keeper.take_actions()).size(), 1U);
  EXPECT_TRUE(keeper.is_over());
}

TEST(GenerationKeeper, TheRunIsDoneWhenAllThatLiveHaveFinished) {
  GenerationKeeper keeper = keeper_of(3);
  keeper.report(0, {.generation = 1, .is_finished = true}, milliseconds(0));
  keeper.report(1, {.generation = 1, .is_finished = true}, milliseconds(1));
  EXPECT_TRUE(keeper.take_actions().empty());
  keeper.lose(2, "killed", milliseconds(2));
  const auto lost_and_first = only<Dismiss>(keeper.take_actions());
  ASSERT_EQ(lost_and_first.size(), 2U);
  EXPECT_EQ(lost_and_first[1].kind, Dismiss::Kind::finished);
  EXPECT_EQ(lost_and_first[1].id, 0);
  EXPECT_FALSE(keeper.is_over());
  keeper.release(0, "asked to", milliseconds(3));
  EXPECT_FALSE(keeper.is_over());
  keeper.tell(1, milliseconds(0));
  EXPECT_FALSE(keeper.is_over());
  keeper.tell(0, milliseconds(0));
  const auto other = only<Dismiss>(keeper.take_actions());
  ASSERT_EQ(other.size(), 1U);
  EXPECT_EQ(other[0].kind, Dismiss::Kind::finished);
  EXPECT_EQ(other[0].id, 1);
  EXPECT_TRUE(keeper.is_over());
}

TEST(GenerationKeeper, WhereTheFirstIsLostBeforeItHasToldTheResultAnotherTellsIt) {
  GenerationKeeper keeper = keeper_of(3, {.min_workers = 3});
  for (int id = 0; id < 3; ++id)
    keeper.report(id, {.generation = 1, .is_finished = true}, milliseconds(0));
  keeper.add(3, "localhost");
  keeper.report(3, {.generation = 0, .has_state = false}, milliseconds(1));
  keeper.take_actions();
  keeper.lose(0, "killed", milliseconds(2));
  const auto begins = only<Begin>(keeper.take_actions());
  ASSERT_EQ(begins.size(), 1U);
  EXPECT_EQ(ids_of(begins[0].membership), (Ids{1, 2}));
  for (int id = 1; id < 3; ++id)
    keeper.report(id, {.generation = 2, .is_finished = true}, milliseconds(3));
  EXPECT_EQ(only<Dismiss>(keeper.take_actions()).at(0).id, 1);
  keeper.end(1, milliseconds(4));
  EXPECT_TRUE(keeper.is_over());
}

TEST(GenerationKeeper, OthersThatAreLostWhileTheResultIsToldChangeNothing) {
  GenerationKeeper keeper = keeper_of(2);
  for (int id = 0; id < 2; ++id)
    keeper.report(id, {.generation = 1, .is_finished = true}, milliseconds(0));
  keeper.take_actions();
  keeper.lose(1, "killed", milliseconds(1));
  EXPECT_TRUE(only<Begin>(keeper.take_actions()).empty());
  EXPECT_FALSE(keeper.is_over());
  keeper.end(0, milliseconds(2));
  EXPECT_TRUE(keeper.is_over());
}

TEST(GenerationKeeper, OfWorkersThatDoNotHearEachOtherTheOneMostMissedGoes) {
  GenerationKeeper keeper = keeper_of(3);
  keeper.report(0, {.generation = 1, .missed = 1}, milliseconds(0));
  keeper.report(1, {.generation = 1, .missed = 0}, milliseconds(0));
  keeper.report(2, {.generation = 1, .missed = 1}, milliseconds(0));
  EXPECT_EQ(ids_of(only<Begin>(keeper.take_actions()).at(0).membership), (Ids{0, 2}));
}

TEST(GenerationKeeper, TheOnlyOneWithTheStateLeavesWhenAnotherHasTakenIt) {
  GenerationKeeper keeper = keeper_of(1);
  keeper.release(0, "asked to", milliseconds(0));
  keeper.report(0, {.generation = 1}, milliseconds(1));
  EXPECT_EQ(ids_of(only<Begin>(keeper.take_actions()).at(0).membership), (Ids{0}));
  keeper.add(1, "localhost");
  keeper.report(1, {.generation = 0, .has_state = false}, milliseconds(2));
  keeper.report(0, {.generation = 2}, milliseconds(3));
  EXPECT_EQ(ids_of(only<Begin>(keeper.take_actions()).at(0).membership), (Ids{0, 1}));
  keeper.report(0, {.generation = 3}, milliseconds(4));
  keeper.report(1, {.generation = 3}, milliseconds(4));
  EXPECT_EQ(ids_of(only<Begin>(keeper.take_actions()).at(0).membership), (Ids{1}));
}

TEST(GenerationKeeper, FewerWorkersAreWantedAndTheHighestRanksLeave) {
  GenerationKeeper keeper = keeper_of(3);
  keeper.resize(2, milliseconds(0));
  for (int id = 0; id < 3; ++id) keeper.report(id, {.generation = 1}, milliseconds(1));
  const auto actions = keeper.take_actions();
  EXPECT_EQ(only<Dismiss>(actions).at(0).kind, Dismiss::Kind::left);
  EXPECT_EQ(ids_of(only<Begin>(actions).at(0).membership), (Ids{0, 1}));
}

TEST(GenerationKeeper, AWorkerThatWasToLeaveStaysWhereTheJobGrowsAgainBeforeItsStepIsOver) {
  GenerationKeeper keeper = keeper_of(3);
  keeper.resize(1, milliseconds(0));
  keeper.resize(3, milliseconds(1));
  for (int id = 0; id < 3; ++id) keeper.report(id, {.generation = 1}, milliseconds(2));
  const auto actions = keeper.take_actions();
  EXPECT_TRUE(only<Dismiss>(actions).empty());
  EXPECT_EQ(ids_of(only<Begin>(actions).at(0).membership), (Ids{0, 1, 2}));
}

TEST(GenerationKeeper, WhatIsWantedIsTold) {
  GenerationKeeper keeper = keeper_of(2);
  keeper.resize(4, milliseconds(0));
  const auto notes = only<KeeperNote>(keeper.take_actions());
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_EQ(notes[0].kind, KeeperNote::Kind::resized);
  EXPECT_EQ(notes[0].workers, 4);
}

TEST(GenerationKeeper, OneThatGetsReadyWhileItIsToLeaveHearsItWhenItReports) {
  GenerationKeeper keeper = keeper_of(2);
  keeper.add(7, "a");
  keeper.release(7, "its host leaves", milliseconds(0));
  keeper.lose(1, "killed", milliseconds(1));
  keeper.report(0, {.generation = 1}, milliseconds(2));
  EXPECT_EQ(ids_of(only<Begin>(keeper.take_actions()).at(0).membership), (Ids{0}));
  keeper.report(7, {.has_state = false}, milliseconds(3));
  const auto dismissed = only<Dismiss>(keeper.take_actions());
  ASSERT_EQ(dismissed.size(), 1U);
  EXPECT_EQ(dismissed[0].kind, Dismiss::Kind::left);
}

TEST(GenerationKeeper, OneThatWaitsForAPlaceLeavesAtOnce) {
  GenerationKeeper keeper = keeper_of(2, {.max_workers = 2});
  keeper.add(7, "a");
  keeper.report(7, {.has_state = false}, milliseconds(0));
  keeper.release(7, "its host leaves", milliseconds(1));
  const auto actions = keeper.take_actions();
  ASSERT_EQ(only<Dismiss>(actions).size(), 1U);
  EXPECT_EQ(only<Dismiss>(actions)[0].id, 7);
  EXPECT_TRUE(only<Interrupt>(actions).empty());  // the others need not come out of their step
}

TEST(GenerationKeeper, WhereAllAreAskedToLeaveTheFirstStays) {
  GenerationKeeper keeper = keeper_of(3);
  for (int id = 0; id < 3; ++id) keeper.release(id, "asked to", milliseconds(0));
  for (int id = 0; id < 3; ++id) keeper.report(id, {.generation = 1}, milliseconds(1));
  EXPECT_EQ(ids_of(only<Begin>(keeper.take_actions()).at(0).membership), (Ids{0}));
}

TEST(GenerationKeeper, AMemberThatSpeaksOfAnotherGenerationIsOutAndTheOthersGoOn) {
  GenerationKeeper keeper = keeper_of(2);
  keeper.report(1, {.generation = 7}, milliseconds(0));
  EXPECT_FALSE(keeper.knows(1));
  keeper.report(0, {.generation = 1}, milliseconds(1));
  EXPECT_EQ(ids_of(only<Begin>(keeper.take_actions()).at(0).membership), (Ids{0}));
}

// The coordinator that made them is gone, and another one goes on.
GenerationKeeper resumed(const GenerationKeeper& old) {
  GenerationKeeper keeper{GenerationLimits{}};
  keeper.resume(old.state(), milliseconds(0));
  return keeper;
}

TEST(ResumedKeeper, WaitsForAllMembersAndBeginsTheNextGeneration) {
  GenerationKeeper keeper = resumed(keeper_of(3, {.min_workers = 2, .max_workers = 5}));
  EXPECT_EQ(only<Interrupt>(keeper.take_actions()).size(), 3U);
  keeper.report(2, {.generation = 1, .missed = 0}, milliseconds(1));
  keeper.report(0, {.generation = 1}, milliseconds(1));
  EXPECT_TRUE(only<Begin>(keeper.take_actions()).empty());
  keeper.report(1, {.generation = 1}, milliseconds(2));
  const auto begins = only<Begin>(keeper.take_actions());
  ASSERT_EQ(begins.size(), 1U);
  EXPECT_EQ(begins[0].membership.generation, 2);
  EXPECT_EQ(ids_of(begins[0].membership), (Ids{0, 1, 2}));
  EXPECT_EQ(keeper.state().min_workers, 2);
  EXPECT_EQ(keeper.state().max_workers, 5);
}

// The old coordinator had decided a generation, and not everybody heard of it.
TEST(ResumedKeeper, AMemberMayNotKnowOfTheLastGeneration) {
  GenerationKeeper old = keeper_of(2);
  old.add(7, "localhost");
  old.report(7, {.has_state = false}, milliseconds(0));
  for (int id = 0; id < 2; ++id) old.report(id, {.generation = 1}, milliseconds(1));
  GenerationKeeper keeper = resumed(old);
  keeper.report(7, {.has_state = false}, milliseconds(2));
  keeper.report(0, {.generation = 1}, milliseconds(2));
  keeper.report(1, {.generation = 2}, milliseconds(2));
  const Membership next = only<Begin>(keeper.take_actions()).at(0).membership;
  EXPECT_EQ(next.generation, 3);
  EXPECT_EQ(ids_of(next), (Ids{0, 1, 7}));
  keeper.report(0, {.generation = 2}, milliseconds(3));  // from now on it has to
  EXPECT_FALSE(keeper.knows(0));
}

TEST(ResumedKeeper, WhoWasToLeaveLeaves) {
  GenerationKeeper old = keeper_of(2);
  old.release(1, "asked to", milliseconds(0));
  GenerationKeeper keeper = resumed(old);
  for (int id = 0; id < 2; ++id) keeper.report(id, {.generation = 1}, milliseconds(1));
  EXPECT_EQ(ids_of(only<Begin>(keeper.take_actions()).at(0).membership), (Ids{0}));
}

TEST(ResumedKeeper, WhoWasToLeaveBeforeItWasReadyLeavesWhenItIs) {
  GenerationKeeper old = keeper_of(2);
  old.add(7, "a");
  EXPECT_TRUE(old.release(7, "asked to", milliseconds(0)));
  EXPECT_FALSE(old.release(7, "asked to", milliseconds(0)));
  EXPECT_TRUE(old.take_actions().empty());  // nobody is told, and it counts
  GenerationKeeper keeper = resumed(resumed(old));
  for (int id = 0; id < 2; ++id) keeper.report(id, {.generation = 1}, milliseconds(1));
  keeper.take_actions();
  keeper.add(7, "a");
  keeper.report(7, {.has_state = false}, milliseconds(2));
  const auto dismissed = only<Dismiss>(keeper.take_actions());
  ASSERT_EQ(dismissed.size(), 1U);
  EXPECT_EQ(dismissed[0].kind, Dismiss::Kind::left);
}

TEST(ResumedKeeper, AResultThatIsToldIsNotToldAgain) {
  GenerationKeeper old = keeper_of(3);
  for (int id = 0; id < 3; ++id)
    old.report(id, {.generation = 1, .is_finished = true}, milliseconds(0));
  ASSERT_EQ(only<Dismiss>(old.take_actions()).size(), 1U);  // the first tells it
  GenerationKeeper keeper = resumed(old);
  keeper.tell(0, milliseconds(1));
  keeper.report(1, {.generation = 1, .is_finished = true}, milliseconds(1));
  EXPECT_FALSE(keeper.is_over());
  keeper.report(2, {.generation = 1, .is_finished = true}, milliseconds(1));
  EXPECT_TRUE(keeper.is_run_done());
  const auto dismissed = only<Dismiss>(keeper.take_actions());
  EXPECT_EQ(dismissed.size(), 3U);
  for (const Dismiss& one : dismissed) EXPECT_EQ(one.kind, Dismiss::Kind::finished);
}

TEST(ResumedKeeper, WhereTheTellerIsLostAnotherOneTells) {
  GenerationKeeper keeper = resumed(keeper_of(2));
  keeper.report(1, {.generation = 1, .is_finished = true}, milliseconds(1));
  keeper.take_actions();
  keeper.lose(0, "it did not come", milliseconds(2));
  const auto dismissed = only<Dismiss>(keeper.take_actions());
  ASSERT_EQ(dismissed.size(), 2U);
  EXPECT_EQ(dismissed[1].id, 1);
  EXPECT_EQ(dismissed[1].kind, Dismiss::Kind::finished);
}

TEST(Alignment, WhoIsFurthestGivesItsStateToAllOthers) {
  const std::vector<Progress> all{{.step = 4}, {.step = 5}, {}, {.step = 5}};
  const Alignment alignment = align(all);
  EXPECT_EQ(alignment.source, 1);
  EXPECT_EQ(alignment.receives, (std::vector<bool>{true, false, true, false}));
  EXPECT_TRUE(alignment.has_newcomers);
  EXPECT_FALSE(align(std::vector<Progress>{{.step = 5}, {.step = 5}}).is_needed());
  EXPECT_THROW(align(std::vector<Progress>{{}, {}}), InvalidArgument);
  const Progress back = Progress::from_text(Progress{.step = 7, .evaluated = 6}.to_text());
  EXPECT_EQ(back, (Progress{.step = 7, .evaluated = 6}));
}

TEST(GenerationMember, RefusesMessagesOfAnyGenerationButItsOwn) {
  const Membership first{.generation = 1, .members = {{.id = 0}, {.id = 1}}};
  GenerationMember member(1, first);
  EXPECT_TRUE(member.accepts(1));
  member.fail();
  EXPECT_FALSE(member.accepts(1));
  EXPECT_THROW(member.begin(first), Corrupt);
  EXPECT_THROW(member.begin({.generation = 2, .members = {{.id = 0}}}), NotFound);
  member.begin({.generation = 2, .members = {{.id = 1}}});
  EXPECT_EQ(member.rank(), 0);
  EXPECT_FALSE(member.accepts(1));
  EXPECT_TRUE(member.accepts(2));
}

}  // namespace
}  // namespace lockstep::cluster::detail
