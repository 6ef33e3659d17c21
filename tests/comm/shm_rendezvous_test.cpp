// SPDX-License-Identifier: Apache-2.0
#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <random>

#include "lockstep/comm/transports/shm.h"
#include "tests/cluster/child.h"
#include "tests/comm/shm_helpers.h"
#include "tests/comm/worlds.h"
#include "tests/message.h"

namespace lockstep::comm {
namespace {

using lockstep::testing::Child;
using lockstep::testing::message_of;

// It has taken the group's file, which it gets when it has said who it is.
bool has_mapped_memory(const Child& child) {
  std::ifstream file(fmt::format("/proc/{}/maps", child.pid()));
  const std::string maps{std::istreambuf_iterator<char>(file), {}};
  return maps.find(" /dev/shm/") != std::string::npos || maps.find("/memfd:") != std::string::npos;
}

TEST(ShmRendezvous, ARankThatDoesNotComeIsNamed) {
  const std::string group = random_group();
  EXPECT_EQ(message_of<Timeout>([&] {
              connect_shm({group, 0, 2, "here", 50ms});
            }),
            "connect: rank 1 on here has not come in time");
  EXPECT_EQ(message_of<Timeout>([&] {
              connect_shm({group, 1, 2, "here", 50ms});
            }),
            "connect: rank 0 on here has not come in time");
}

// Ranks 0 and 1 wait for rank 2, and one of them is killed.
std::string heard_by_the_other(int victim) {
  const std::string group = random_group();
  std::vector<Child> ranks;
  for (int rank = 0; rank < 2; ++rank)
    ranks.emplace_back([&] {
      connect_shm({group, rank, 3, "here", 60s});
      return std::string("connected");
    });
  await([&] { return has_mapped_memory(ranks[1]); });
  ranks[static_cast<std::size_t>(victim)].signal(SIGKILL);
  return ranks[static_cast<std::size_t>(1 - victim)].result(20s);
}

TEST(ShmRendezvous, ARankThatIsKilledWhileOthersComeIsNamedAtOnce) {
  EXPECT_EQ(heard_by_the_other(0),
            "PeerLost: connect: rank 0 on here was lost: it ended before all had come");
  EXPECT_EQ(heard_by_the_other(1),
            "PeerLost: connect: rank 1 on here was lost: it ended before all had come");
}

// All of a group of four come but one, some before others, and have the same time.
void miss_one(int missing, unsigned seed) {
  const std::string group = random_group();
  std::mt19937 random(seed);
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    const auto lag = std::chrono::milliseconds(random() % 200);
    if (rank == missing) continue;
    ranks.emplace_back([=] {
      std::this_thread::sleep_for(lag);
      EXPECT_EQ(message_of<Timeout>([&] {
                  connect_shm({group, rank, 4, "here", 3s});
                }),
                fmt::format("connect: rank {} on here has not come in time", missing))
          << "rank " << rank << " of seed " << seed;
    });
  }
}

TEST(ShmRendezvous, AllNameTheRankThatDoesNotComeWhoeverGivesUpFirst) {
  const unsigned seed = std::random_device()();
  std::vector<std::jthread> groups;
  for (unsigned i = 0; i < 12; ++i)
    groups.emplace_back([=] { miss_one(static_cast<int>(i % 4), seed + i); });
}

// Rank 2 does not come; the others wait so long for it.
void expect_both_miss_it(std::chrono::seconds first_waits, std::chrono::seconds second_waits) {
  const std::string group = random_group();
  const auto wait = [&](int rank, std::chrono::seconds patience) {
    EXPECT_EQ(message_of<Timeout>([&] {
                connect_shm({group, rank, 3, "here", patience});
              }),
              "connect: rank 2 on here has not come in time");
  };
  const std::jthread first([&] { wait(0, first_waits); });
  wait(1, second_waits);
}

TEST(ShmRendezvous, WhoHasNoTimeLeftIsNotBlamedForTheOneThatDoesNotCome) {
  expect_both_miss_it(60s, 2s);
}

TEST(ShmRendezvous, WhatRankZeroGivesUpForIsHeardByTheOthers) { expect_both_miss_it(2s, 60s); }

TEST(ShmRendezvous, WrongOptionsAreRefused) {
  EXPECT_EQ(message_of([] { connect_shm({"job", 2, 2}); }), "shm: got rank 2 of 2 ranks");
  EXPECT_EQ(message_of([] {
              connect_shm({"", 0, 1});
            }),
            "shm: the group's name is '', expected 1 to 80 characters");
}

TEST(ShmRendezvous, AGroupThatExistsIsRefused) {
  const std::string group = random_group();
  const std::jthread other([&] { connect_shm({group, 0, 2}); });
  await_ends(group, 1);
  EXPECT_EQ(message_of<IoError>([&] {
              connect_shm({group, 0, 2});
            }),
            "shm: group '" + group + "': cannot be met: Address already in use");
  connect_shm({group, 1, 2});
}

TEST(ShmRendezvous, RanksThatDoNotAgreeOnTheirNumberAreRefused) {
  const std::string group = random_group();
  const auto connect = [&](int rank, int size) {
    const std::string message = message_of<InvalidArgument>([&] {
      connect_shm({group, rank, size});
    });
    EXPECT_TRUE(message.starts_with("shm: rank 0 has 2 ranks and ")) << message;
    EXPECT_NE(message.find(", rank 1 has 3 and "), std::string::npos) << message;
  };
  const std::jthread other(connect, 0, 2);
  connect(1, 3);
}

// Rank `poor` of two can open only so many files: both say so.
void expect_poor(int poor, std::size_t files, const std::string& expected) {
  const std::string group = random_group();
  Child child([&] {
    if (poor != 0) await_ends(group, 1);
    leave_files(files);
    connect_shm({group, poor, 2, "here", 30s});
    return std::string("connected");
  });
  EXPECT_EQ(message_of<IoError>([&] { connect_shm({group, 1 - poor, 2, "here", 30s}); }), expected);
  EXPECT_EQ(child.result(), "IoError: " + expected);
}

TEST(ShmRendezvous, TooManyOpenFilesAreNamedOnAllRanks) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "to look at an error the sanitizer needs a descriptor";
#endif
  expect_poor(0, 2, "/dev/shm: no file can be made there: Too many open files");
  expect_poor(0, 3, "shm: rank 0: the others cannot be let in: Too many open files");
  expect_poor(1, 1, "shm: rank 1: the group's file cannot be taken: Too many open files");
}

// In a process of its own.
void become_another_user() {
  if (setgid(65534) != 0 || setuid(65534) != 0) throw std::runtime_error("setuid failed");
}

TEST(ShmRendezvous, AnotherUsersProcessCannotJoin) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  const std::string group = random_group();
  std::jthread first([&] { Communicator(connect_shm({group, 0, 2, "here"})).barrier(); });
  await_ends(group, 1);
  Child stranger([&] {
    become_another_user();
    connect_shm({group, 1, 2, "here", 20s});
    return std::string("connected");
  });
  EXPECT_EQ(stranger.result(30s),
            "PeerLost: connect: rank 0 on here was lost: it ended before all had come");
  Communicator(connect_shm({group, 1, 2, "here"})).barrier();
}

std::string squat(const std::string& group) {
  become_another_user();
  const std::string text = "lockstep-" + group;
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path + 1, text.data(), text.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  const int listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
  bind(listener, reinterpret_cast<const sockaddr*>(&name), length);
  listen(listener, 4);
  pause();
  return "";
}

TEST(ShmRendezvous, AnotherUsersProcessThatHasTheGroupsNameIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  const std::string group = random_group();
  const Child squatter([&] { return squat(group); });
  await_ends(group, 1);
  EXPECT_EQ(message_of<IoError>([&] {
              connect_shm({group, 0, 2});
            }),
            "shm: group '" + group + "': cannot be met: Address already in use");
  EXPECT_EQ(message_of<IoError>([&] {
              connect_shm({group, 1, 2});
            }),
            "shm: group '" + group + "': another user's process is there");
}

int connect_in_little_memory() {
  if (!shrink_memory("size=1m")) return 77;
  const std::string group = random_group();
  std::atomic<int> clear = 0;
  const auto work = [&](int rank) {
    const std::string message = message_of<IoError>([&] { connect_shm({group, rank, 4}); });
    const bool good = message.starts_with("/dev/shm: shared memory for 4 ranks needs ") &&
                      message.find("1024 KB are free") != std::string::npos;
    if (!good) fmt::print(stderr, "{}: {}\n", rank, message);
    clear += good ? 1 : 0;
  };
  {
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < 4; ++rank) ranks.emplace_back(work, rank);
  }
  return clear == 4 ? 0 : 1;
}

// Whenever it is killed, there is nothing that could stay behind.
int look_for_names() {
  if (!shrink_memory("size=64m")) return 77;
  const std::string group = random_group();
  const std::jthread first([&] { connect_shm({group, 0, 3}); });
  const std::jthread second([&] { connect_shm({group, 1, 3}); });
  await_ends(group, 2);
  const bool empty = std::filesystem::is_empty("/dev/shm");
  connect_shm({group, 2, 3});
  return empty && std::filesystem::is_empty("/dev/shm") ? 0 : 1;
}

TEST(ShmRendezvous, TooLittleSharedMemoryIsAnErrorThatSaysHowMuchIsNeeded) {
  expect_in_process(connect_in_little_memory);
}

TEST(ShmRendezvous, NothingInSharedMemoryHasANameWhileRanksConnect) {
  expect_in_process(look_for_names);
}

}  // namespace
}  // namespace lockstep::comm
