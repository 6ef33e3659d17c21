// SPDX-License-Identifier: Apache-2.0
// What survivors say when a rank dies, stops, is cut off or aborts: on every transport that
// connects processes, within the deadline, with nothing left running.
#include <gtest/gtest.h>

#include <thread>

#include "tests/cluster/child.h"
#include "tests/comm/worlds.h"
#include "tests/event.h"
#include "tests/message.h"

namespace lockstep::comm {
namespace {

using namespace std::chrono_literals;
using lockstep::testing::Child;
using lockstep::testing::contains;
using lockstep::testing::Event;
using lockstep::testing::SetAtEnd;

// Bytes that tell ranks and places apart.
std::vector<std::byte> pattern(int rank, std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i)
    bytes[i] = static_cast<std::byte>(i * 31 + i / 251 + static_cast<std::size_t>(rank) * 7);
  return bytes;
}

// One exchange in which every rank sends to and receives from every other.
std::string all_to_all(Transport& transport, std::size_t count, Deadline deadline) {
  const auto size = static_cast<std::size_t>(transport.size());
  std::vector<std::byte> own = pattern(transport.rank(), count);
  std::vector<std::vector<std::byte>> received(size, std::vector<std::byte>(count));
  std::vector<Transfer> transfers;
  for (int peer = 0; peer < transport.size(); ++peer) {
    if (peer == transport.rank()) continue;
    transfers.push_back({Transfer::Kind::send, peer, own});
    transfers.push_back({Transfer::Kind::receive, peer, received[static_cast<std::size_t>(peer)]});
  }
  transport.exchange(transfers, deadline, "all_to_all");
  for (int peer = 0; peer < transport.size(); ++peer)
    if (peer != transport.rank() &&
        received[static_cast<std::size_t>(peer)] != pattern(peer, count))
      return fmt::format("wrong bytes from rank {}", peer);
  return "ok";
}

class LostPeers : public ::testing::TestWithParam<WorldKind> {
 protected:
  void SetUp() override {
    if (!GetParam().forks) GTEST_SKIP() << "this one does not connect processes";
  }
  // Forks the ranks; each connects and then does its part.
  void start(int size, const std::function<std::string(Transport&)>& part) {
    world_ = GetParam().make(size);
    for (int rank = 0; rank < size; ++rank)
      ranks_.emplace_back([&, rank] {
        const std::unique_ptr<Transport> transport = world_->connect(rank);
        return part(*transport);
      });
  }
  std::string result(int rank) { return ranks_[static_cast<std::size_t>(rank)].result(); }

  std::unique_ptr<World> world_;
  std::vector<Child> ranks_;
};

TEST_P(LostPeers, ManyToManyAtOnceBringsEveryByte) {
  start(4, [](Transport& transport) {
    for (std::size_t count : {0u, 1u, 100u, 70'000u, 3'000'001u})
      if (all_to_all(transport, count, Clock::now() + 20s) != "ok") return std::string("wrong");
    return std::string("ok");
  });
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(result(rank), "ok");
}

TEST_P(LostPeers, WhatWasSentBeforeLeavingStillArrives) {
  start(2, [](Transport& transport) {
    std::vector<std::byte> bytes = pattern(0, 100'000);
    std::vector<std::byte> got(bytes.size());
    Transfer send{Transfer::Kind::send, 1, bytes}, receive{Transfer::Kind::receive, 0, got};
    if (transport.rank() == 1) std::this_thread::sleep_for(200ms);
    transport.exchange({transport.rank() == 0 ? &send : &receive, 1}, Clock::now() + 10s, "send");
    return std::string(transport.rank() == 0 || got == bytes ? "ok" : "wrong");
  });
  EXPECT_EQ(result(0), "ok");
  EXPECT_EQ(result(1), "ok");
}

// Rank 2 of 3 gets a signal in the middle of exchanges.
std::string exchange_until_hit(Transport& transport, int signal, std::chrono::seconds deadline) {
  for (int i = 0; i < 1000; ++i) {
    if (transport.rank() == 2 && i == 5) ::raise(signal);
    all_to_all(transport, 2'000'000, Clock::now() + deadline);
  }
  return "never hit";
}

TEST_P(LostPeers, AKilledRankIsLostToEverySurvivor) {
  start(3, [](Transport& transport) { return exchange_until_hit(transport, SIGKILL, 30s); });
  EXPECT_EQ(result(2), "signal 9");
  const auto begin = Clock::now();
  for (int rank = 0; rank < 2; ++rank) {
    const std::string heard = result(rank);
    EXPECT_PRED2(contains, heard, "all_to_all: ");
    EXPECT_PRED2(contains, heard, "rank 2 on ");  // lost to this one, or to who told it
  }
  EXPECT_LT(Clock::now() - begin, 15s);  // long before the deadline
}

TEST_P(LostPeers, AStoppedRankIsATimeoutAtTheDeadline) {
  start(3, [](Transport& transport) { return exchange_until_hit(transport, SIGSTOP, 1s); });
  int timeouts = 0;
  for (int rank = 0; rank < 2; ++rank) {
    const std::string heard = result(rank);
    EXPECT_PRED2(contains, heard, "all_to_all: ");
    timeouts += heard.starts_with("Timeout") && contains(heard, "rank 2 on ");
  }
  EXPECT_GE(timeouts, 1);  // the other one may receive_from of the first
}

TEST_P(LostPeers, AnAbortReachesEveryRankWithItsReason) {
  const Event waits[3], heard_it[3];
  start(3, [&](Transport& transport) {
    all_to_all(transport, 10, Clock::now() + 10s);
    waits[transport.rank()].set();
    if (transport.rank() == 1) {
      for (const Event& one : waits) one.await();
      transport.abort("the disk is full");
    }
    const auto begin = Clock::now();
    std::byte byte{};
    Transfer wait{Transfer::Kind::receive, transport.rank() == 0 ? 2 : 0, {&byte, 1}};
    std::string heard = "nothing";
    try {
      transport.exchange({&wait, 1}, begin + 10s, "wait");
    } catch (const Aborted& error) {
      heard = error.what();
    }
    heard_it[transport.rank()].set();
    for (const Event& one : heard_it) one.await(20s);  // its end must not come before that
    return heard;
  });
  for (int rank = 0; rank < 3; ++rank) {
    const std::string heard = result(rank);
    EXPECT_PRED2(contains, heard, "wait: aborted by rank 1: ");
    EXPECT_PRED2(contains, heard, "the disk is full");
  }
}

TEST_P(LostPeers, AnAbortInAnotherThreadEndsAWaitingExchange) {
  const Event waits, over;
  start(2, [&](Transport& transport) {
    if (transport.rank() == 1) {
      over.await();
      return std::string();
    }
    const SetAtEnd end(over);
    std::jthread other([&] {
      waits.await();
      transport.abort("enough");
    });
    std::byte byte{};
    waits.set();
    Transfer wait{Transfer::Kind::receive, 1, {&byte, 1}};
    transport.exchange({&wait, 1}, Clock::now() + 10s, "wait");
    return std::string("nothing");
  });
  EXPECT_PRED2(contains, result(0), "Aborted: wait: aborted by rank 0: enough");
}

INSTANTIATE_TEST_SUITE_P(Transports, LostPeers, ::testing::ValuesIn(world_kinds_that_fail()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace lockstep::comm
