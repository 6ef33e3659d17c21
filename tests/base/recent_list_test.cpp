// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/recent_list.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep {
namespace {

std::vector<int> contents(const RecentList<int>& list) { return {list.begin(), list.end()}; }

TEST(RecentList, DropsWhatWasNotUsedForTheLongestTime) {
  RecentList<int> list(3);
  for (int i : {1, 2, 3}) list.add(i);
  ASSERT_NE(list.find([](int i) { return i == 1; }), nullptr);
  list.add(4);
  EXPECT_EQ(contents(list), (std::vector{4, 1, 3}));
  EXPECT_EQ(list.find([](int i) { return i == 2; }), nullptr);
}

TEST(RecentList, KeepsThingsWhereTheyAre) {
  RecentList<int> list(2);
  const int* first = &list.add(1);
  list.add(2);
  EXPECT_EQ(list.find([](int i) { return i == 1; }), first);
  EXPECT_EQ(list.last_used(), first);
}

TEST(RecentList, HoldsOneThingWhenItMayHoldNone) {
  RecentList<int> list(0);
  EXPECT_EQ(list.last_used(), nullptr);
  EXPECT_EQ(list.add(1), 1);
  list.add(2);
  EXPECT_EQ(contents(list), std::vector{2});
  list.clear();
  EXPECT_EQ(list.size(), 0U);
}

}  // namespace
}  // namespace lockstep
