// SPDX-License-Identifier: Apache-2.0
// Groups of the same ranks have channels of their own: they do not wait for each other, and their
// bytes do not mix.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <random>
#include <thread>

#include "lockstep/comm/socket.h"
#include "lockstep/comm/transports/in_process.h"
#include "lockstep/comm/transports/tcp.h"
#include "tests/comm/worlds.h"
#include "tests/message.h"
#include "tests/seed.h"

namespace lockstep::comm {
namespace {

using namespace std::chrono_literals;

const CallOptions kLongTimeout{.timeout = 60s};

class Groups : public ::testing::TestWithParam<WorldKind> {};

// All ranks add up `count` numbers that depend on `salt`; true when the sum is right.
bool add_up(Communicator& group, std::size_t count, int salt) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(salt)) % 1000) +
                static_cast<float>(group.rank());
  const auto size = static_cast<float>(group.size());
  std::vector<float> expected(count);
  for (std::size_t i = 0; i < count; ++i)
    expected[i] = size * (values[i] - static_cast<float>(group.rank())) + size * (size - 1) / 2;
  group.all_reduce(bytes_of(values), Element::float32, Reduction::sum, kLongTimeout);
  return values == expected;
}

// Rank 0 comes to the first group's call only when the second's and the whole's are over
// everywhere.
TEST_P(Groups, ACallThatIsHeldOpenHoldsUpNoOtherGroup) {
  constexpr int kRanks = 4;
  std::promise<void> others_over;
  const std::shared_future<void> over = others_over.get_future().share();
  std::atomic<int> done = 0;
  run_ranks(GetParam(), kRanks, [&](Communicator& whole) {
    const auto held = whole.split({3, 1, 0}, kLongTimeout),
               free = whole.split({0, 1, 2, 3}, kLongTimeout);
    ASSERT_EQ(held == nullptr, whole.rank() == 2);
    std::jthread waiting;
    if (held && whole.rank() != 0)
      waiting = std::jthread([&] { EXPECT_TRUE(add_up(*held, 100'000, 1)); });
    for (const std::size_t count : {1u, 200'000u}) EXPECT_TRUE(add_up(*free, count, 2));
    EXPECT_TRUE(add_up(whole, 5000, 3));
    if (++done == kRanks) others_over.set_value();
    ASSERT_EQ(over.wait_for(60s), std::future_status::ready);
    if (whole.rank() == 0) {
      EXPECT_TRUE(add_up(*held, 100'000, 1));
    }
  });
}

// What one thread of a rank does: calls of one group, in an order that all its ranks know.
void run_schedule(Communicator& group, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto pick = [&](std::uint64_t below) { return random() % below; };
  for (int call = 0; call < 12; ++call) {
    const auto root = static_cast<int>(pick(static_cast<std::uint64_t>(group.size())));
    const std::size_t count = 1 + pick(pick(2) == 0 ? 100 : 60'000);
    const int kind = static_cast<int>(pick(4));
    if (kind == 0) group.barrier(kLongTimeout);
    if (kind == 1) {
      EXPECT_TRUE(add_up(group, count, call)) << "seed " << seed;
    }
    if (kind == 2) {
      std::vector<float> sent(count, static_cast<float>(root + call)), got = sent;
      if (group.rank() != root) std::fill(got.begin(), got.end(), -1.f);
      group.broadcast(bytes_of(got), root, kLongTimeout);
      EXPECT_EQ(got, sent) << "seed " << seed;
    }
    if (kind == 3) {
      const auto size = static_cast<std::size_t>(group.size());
      std::vector<float> part(count, static_cast<float>(group.rank() + call));
      std::vector<float> all(count * size);
      group.all_gather(bytes_of(part), bytes_of(all), kLongTimeout);
      for (std::size_t i = 0; i < all.size(); ++i)
        ASSERT_EQ(all[i], static_cast<float>(static_cast<int>(i / count) + call));
    }
  }
}

// Four groups, of which any two have ranks in common, each with a schedule and a thread of its own.
TEST_P(Groups, CallsOfOverlappingGroupsRunAtOnceAndDoNotMix) {
  const std::uint64_t seed = lockstep::testing::seed_of_this_run();
  run_ranks(GetParam(), 4, [&](Communicator& whole) {
    const std::vector<std::vector<int>> members{{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 2, 3}, {2, 0}};
    std::vector<std::unique_ptr<Communicator>> groups;
    for (const std::vector<int>& ranks : members)
      groups.push_back(whole.split(ranks, kLongTimeout));
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < groups.size(); ++i)
      if (groups[i]) threads.emplace_back([&, i] { run_schedule(*groups[i], seed + i); });
    run_schedule(whole, seed + groups.size());
    threads.clear();
    whole.barrier(kLongTimeout);
  });
}

TEST_P(Groups, GroupsOfGroupsHaveChannelsToo) {
  run_ranks(GetParam(), 4, [](Communicator& whole) {
    const auto most = whole.split({3, 2, 1}, kLongTimeout);
    if (most) {
      const auto two = most->split({1, 2}, kLongTimeout);  // 2 and 1 of the whole
      ASSERT_EQ(two == nullptr, whole.rank() == 3);
      if (two) {
        EXPECT_EQ(two->rank(), 2 - whole.rank());
        EXPECT_TRUE(add_up(*two, 1000, 1));
      }
      EXPECT_TRUE(add_up(*most, 1000, 2));
    }
    const auto alone = whole.split({whole.rank()}, kLongTimeout);
    EXPECT_TRUE(add_up(*alone, 10, 3));
    EXPECT_TRUE(add_up(whole, 1000, 4));
  });
}

TEST_P(Groups, AbortOfTheWholeEndsTheCallsOfItsGroups) {
  std::promise<void> first_is_in;
  run_ranks(GetParam(), 2, [&](Communicator& whole) {
    const auto group = whole.split({0, 1}, kLongTimeout);
    if (whole.rank() == 1) {
      first_is_in.get_future().wait_for(60s);
      return whole.abort("enough");
    }
    first_is_in.set_value();
    EXPECT_THROW(add_up(*group, 10, 1), Aborted);
  });
}

TEST_P(Groups, ErrorsOfAGroupCallRanksAsTheWholeDoes) {
  run_ranks(GetParam(), 3, [&](Communicator& whole) {
    for (const std::vector<int>& ranks : {std::vector<int>{2, 1}, std::vector<int>{1, 0}}) {
      const auto group = whole.split(ranks, kLongTimeout);
      if (!group) continue;
      if (whole.rank() == ranks[0]) {
        group->barrier(kLongTimeout);  // all have it by then
        group->abort("enough");
        continue;
      }
      try {
        group->barrier(kLongTimeout);
        group->barrier(kLongTimeout);
        FAIL() << "a barrier of an aborted group";
      } catch (const Aborted& error) {
        EXPECT_EQ(error.rank(), ranks[0]);
        EXPECT_EQ(std::string(error.what()),
                  fmt::format("barrier: aborted by rank {}: enough", ranks[0]));
      }
    }
    whole.barrier(kLongTimeout);
  });
}

// The first rank of two, or the second, of which the other one never does its part.
Bootstrap half_of_two(int rank, const std::string& other) {
  Bootstrap group;
  group.rank = rank;
  group.hosts = {"a", "b"};
  group.secret = "secret";
  group.timeout = 60s;
  group.all_gather = [rank, other](const std::string& own) {
    return rank == 0 ? std::vector{own, other} : std::vector{other, own};
  };
  return group;
}

// Nobody comes to the first; who listens for the second does not answer.
TEST(Split, ConnectingEndsWhenTheWholeIsBroken) {
  const Socket silent = listen_on({"127.0.0.1", 0});
  for (const int rank : {0, 1}) {
    Bootstrap group = half_of_two(rank, to_string(local_endpoint(silent)));
    int checks = 0;
    group.check = [&] {
      if (++checks == 3) throw Aborted("enough", 1, "b", "split");
    };
    const auto begin = Clock::now();
    EXPECT_EQ(lockstep::testing::message_of<Aborted>([&] { connect_tcp(group); }), "enough");
    EXPECT_LT(Clock::now() - begin, 30s);
  }
}

TEST(Split, WhoCannotBeReachedIsToBlameByTheNameOfTheWhole) {
  const Endpoint nobody = local_endpoint(listen_on({"127.0.0.1", 0}));
  Bootstrap group = half_of_two(1, to_string(nobody));
  group.timeout = 200ms;
  group.names = {5, 3};
  try {
    connect_tcp(group);
    FAIL() << "connected to nobody";
  } catch (const Timeout& error) {
    EXPECT_EQ(error.rank(), 5);
    EXPECT_EQ(error.host(), "a");
    EXPECT_EQ(std::string(error.what()).substr(0, 26), "connect to rank 5 (a): 127");
  }
}

// Another one, which is told of every group that it has made before anybody else knows of it.
class ToldTransport final : public Transport {
 public:
  explicit ToldTransport(std::unique_ptr<Transport> own) : own_(std::move(own)) {}

  std::string_view name() const override { return own_->name(); }
  int rank() const override { return own_->rank(); }
  int size() const override { return own_->size(); }
  const std::string& host(int rank) const override { return own_->host(rank); }
  void exchange(std::span<Transfer> transfers, Deadline deadline,
                std::string_view operation) override {
    own_->exchange(transfers, deadline, operation);
  }
  void abort(const std::string& reason) override { own_->abort(reason); }
  std::unique_ptr<Transport> subgroup(const std::vector<int>& ranks, Deadline deadline) override {
    std::unique_ptr<Transport> group = own_->subgroup(ranks, deadline);
    on_group();
    return group;
  }

  std::function<void()> on_group;

 private:
  std::unique_ptr<Transport> own_;
};

TEST(Split, AGroupThatIsMadeDuringAnAbortIsAbortedToo) {
  InProcessGroup ranks({"here", "here"});
  auto transport = std::make_unique<ToldTransport>(ranks.connect(0));
  std::function<void()>& on_group = transport->on_group;
  Communicator whole(std::move(transport));
  on_group = [&] { whole.abort("enough"); };
  const auto group = whole.split({0, 1});
  EXPECT_EQ(lockstep::testing::message_of<Aborted>([&] { group->barrier({.timeout = 2s}); }),
            "barrier: aborted by rank 0: enough");
}

INSTANTIATE_TEST_SUITE_P(Transports, Groups, ::testing::ValuesIn(world_kinds()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace lockstep::comm
