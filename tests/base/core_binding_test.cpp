// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/core_binding.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "lockstep/base/file.h"
#include "lockstep/base/machine_limits.h"
#include "tests/message.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

using Sets = std::vector<std::vector<int>>;

// Two memory nodes of two cores with two threads each.
class Machine {
 public:
  Machine() {
    write("node/online", "0-1");
    write("node/node0/cpulist", "0-1,4-5");
    write("node/node1/cpulist", "2-3,6-7");
    for (int i = 0; i < 8; ++i)
      write(fmt::format("cpu/cpu{}/topology/thread_siblings_list", i),
            fmt::format("{},{}", i % 4, i % 4 + 4));
  }
  const std::string& path() const { return folder_.path(); }

 private:
  void write(const std::string& name, const std::string& line) const {
    const std::filesystem::path path = folder_.path() + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    write_file(path.string(), line + "\n");
  }
  testing::TemporaryFolder folder_{"cores"};
};

TEST(CoreBinding, ThreadsOfACoreStayTogether) {
  const Machine machine;
  const CoreMap map = find_cores({0, 1, 2, 3, 4, 5, 6, 7}, machine.path());
  EXPECT_EQ(map.cores, (Sets{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(map.nodes, (Sets{{0, 1, 4, 5}, {2, 3, 6, 7}}));
}

TEST(CoreBinding, WhatMayNotBeUsedIsNoCore) {
  const Machine machine;
  const CoreMap map = find_cores({1, 2, 6}, machine.path());
  EXPECT_EQ(map.cores, (Sets{{1}, {2, 6}}));
  EXPECT_EQ(map.nodes, (Sets{{1}, {2, 6}}));
}

TEST(CoreBinding, WhereTheSystemTellsNothingEachProcessorIsACore) {
  const testing::TemporaryFolder nothing("cores");
  const CoreMap map = find_cores({0, 3}, nothing.path());
  EXPECT_EQ(map.cores, (Sets{{0}, {3}}));
  EXPECT_EQ(map.nodes, (Sets{{0, 3}}));
}

Sets shares(Binding binding, int slots) {
  const Machine machine;
  const CoreMap map = find_cores({0, 1, 2, 3, 4, 5, 6, 7}, machine.path());
  Sets all;
  for (int slot = 0; slot < slots; ++slot)
    all.push_back(bound_processors(binding, slot, slots, map));
  return all;
}

TEST(CoreBinding, ProcessesShareTheCoresInOrder) {
  EXPECT_EQ(shares(Binding::core, 1), (Sets{{0, 1, 2, 3, 4, 5, 6, 7}}));
  EXPECT_EQ(shares(Binding::core, 2), (Sets{{0, 1, 4, 5}, {2, 3, 6, 7}}));
  EXPECT_EQ(shares(Binding::core, 3), (Sets{{0, 4}, {1, 5}, {2, 3, 6, 7}}));
  EXPECT_EQ(shares(Binding::core, 8),
            (Sets{{0, 4}, {0, 4}, {1, 5}, {1, 5}, {2, 6}, {2, 6}, {3, 7}, {3, 7}}));
}

TEST(CoreBinding, ProcessesShareTheMemoryNodes) {
  const std::vector<int> first{0, 1, 4, 5}, second{2, 3, 6, 7};
  EXPECT_EQ(shares(Binding::numa, 1), (Sets{{0, 1, 2, 3, 4, 5, 6, 7}}));
  EXPECT_EQ(shares(Binding::numa, 4), (Sets{first, first, second, second}));
  EXPECT_EQ(shares(Binding::none, 2), (Sets{{}, {}}));
}

TEST(CoreBinding, NamesAreThree) {
  EXPECT_EQ(parse_binding("core"), Binding::core);
  EXPECT_EQ(parse_binding(""), Binding::none);
  EXPECT_EQ(testing::message_of([] { parse_binding("socket"); }),
            "bind 'socket': expected none, core or numa");
}

TEST(CoreBinding, AScopeGivesBackWhatItTook) {
  const std::vector<int> before = usable_cores();
  {
    const AffinityScope scope({before.front()});
    EXPECT_EQ(usable_cores(), std::vector<int>{before.front()});
  }
  EXPECT_EQ(usable_cores(), before);
  const AffinityScope none({});
  EXPECT_EQ(usable_cores(), before);
}

}  // namespace
}  // namespace lockstep
