// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/membership/store.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <thread>

#include "lockstep/cluster/membership/memory_store.h"
#include "lockstep/cluster/membership/stored_job.h"
#include "tests/cluster/membership/etcd_servers.h"
#include "tests/cluster/membership/troubled_store.h"

namespace lockstep::cluster {
namespace {

using namespace std::chrono_literals;

// One etcd for all tests of it.
std::shared_ptr<Store> etcd() {
  static EtcdServers servers(1);
  return open_store(servers.address());
}

class AnyStore : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam() && !EtcdServers::are_installed()) GTEST_SKIP() << "etcd-server is not installed";
    store_ = GetParam() ? etcd() : std::make_shared<MemoryStore>();
  }
  std::string name(const char* text) const {
    return ::testing::UnitTest::GetInstance()->current_test_info()->name() + std::string("/") +
           text;
  }
  std::shared_ptr<Store> store_;
};

TEST_P(AnyStore, HasWhatWasPut) {
  EXPECT_FALSE(store_->get(name("a"), testing::soon()));
  const std::string bytes("\0\xff\n{\"", 5);
  const auto version = store_->commit({.puts = {{name("a"), bytes}}}, testing::soon());
  ASSERT_TRUE(version);
  const auto entry = store_->get(name("a"), testing::soon());
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->value, bytes);
  EXPECT_EQ(entry->version, *version);
  EXPECT_EQ(entry->name, name("a"));
}

TEST_P(AnyStore, AChangeHappensAsAWholeWhereItsConditionsHold) {
  const auto first =
      store_->commit({.conditions = {{name("a"), 0}}, .puts = {{name("a"), "1"}}}, testing::soon());
  ASSERT_TRUE(first);
  EXPECT_FALSE(
      store_->commit({.conditions = {{name("a"), 0}}, .puts = {{name("a"), "2"}, {name("b"), "2"}}},
                     testing::soon()));
  EXPECT_FALSE(store_->get(name("b"), testing::soon()));
  const auto second = store_->commit({.conditions = {{name("a"), *first}, {name("b"), 0}},
                                      .puts = {{name("a"), "3"}, {name("b"), "3"}}},
                                     testing::soon());
  ASSERT_TRUE(second);
  EXPECT_GT(*second, *first);
  EXPECT_EQ(store_->get(name("b"), testing::soon())->version, *second);
}

TEST_P(AnyStore, ListsNamesByTheirBeginning) {
  for (const char* one : {"x/a", "x/b", "y"})
    store_->commit({.puts = {{name(one), one}}}, testing::soon());
  const auto found = store_->list(name("x/"), testing::soon());
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].value, "x/a");
  EXPECT_EQ(found[1].value, "x/b");
}

TEST_P(AnyStore, ANameGoesWithItsLease) {
  const StoreLease lease = store_->grant(60s, testing::soon());
  EXPECT_GE(lease.length, 60s);
  ASSERT_TRUE(store_->commit({.puts = {{name("a"), "1", lease.id}}}, testing::soon()));
  EXPECT_TRUE(store_->keep_alive(lease, testing::soon()));
  store_->revoke(lease, testing::soon());
  EXPECT_FALSE(store_->get(name("a"), testing::soon()));
  EXPECT_FALSE(store_->keep_alive(lease, testing::soon()));
  EXPECT_THROW(store_->commit({.puts = {{name("a"), "1", lease.id}}}, testing::soon()), Error);
}

TEST_P(AnyStore, ALeaseThatNobodyKeepsAliveEnds) {
  const StoreLease lease = store_->grant(1s, testing::soon());
  ASSERT_TRUE(store_->commit({.puts = {{name("a"), "1", lease.id}}}, testing::soon()));
  const auto deadline = comm::Clock::now() + 60s;
  while (store_->get(name("a"), testing::soon()) && comm::Clock::now() < deadline)
    std::this_thread::sleep_for(50ms);
  EXPECT_FALSE(store_->get(name("a"), testing::soon()));
  EXPECT_FALSE(store_->keep_alive(lease, testing::soon()));
}

TEST_P(AnyStore, OfManyCampaignersOneLeads) {
  const StoredJob job(store_, name("job"));
  auto first = Leadership::campaign(job, {"127.0.0.1", 1}, 60s, testing::soon());
  ASSERT_TRUE(first);
  EXPECT_FALSE(first->former());
  EXPECT_EQ(Leadership::campaign(job, {"127.0.0.1", 2}, 60s, testing::soon()), nullptr);
  EXPECT_EQ(job.leader(testing::soon())->endpoint.port, 1);
  first.reset();  // gives it back
  EXPECT_FALSE(job.leader(testing::soon()));
  EXPECT_NE(Leadership::campaign(job, {"127.0.0.1", 2}, 60s, testing::soon()), nullptr);
}

TEST_P(AnyStore, ALeaderGoesOnFromWhatTheOneBeforeItWrote) {
  const StoredJob job(store_, name("job"));
  auto first = Leadership::campaign(job, {"127.0.0.1", 1}, 60s, testing::soon());
  first->write(JobRecord{.membership = {.generation = 3, .members = {{.id = 7}}},
                         .used_ids = {1, 7},
                         .events = {{.number = 9, .kind = "lost"}}});
  first->write("transport", {4, "tcp"});
  first.reset();
  const auto next = Leadership::campaign(job, {"127.0.0.1", 2}, 60s, testing::soon());
  ASSERT_TRUE(next->former());
  EXPECT_EQ(next->former()->membership.generation, 3);
  EXPECT_EQ(next->former()->membership.members[0].id, 7);
  EXPECT_EQ(next->former()->used_ids, (std::vector<std::int64_t>{1, 7}));
  EXPECT_EQ(next->former()->events.at(0).kind, "lost");
  ASSERT_EQ(next->registry().size(), 1U);
  EXPECT_EQ(next->registry()[0].first, "transport");
  EXPECT_EQ(next->registry()[0].second.version, 4);
  EXPECT_EQ(next->registry()[0].second.bytes, "tcp");
}

// It was stopped for so long that another one was elected, and wakes up.
TEST_P(AnyStore, AnOldLeaderCannotWriteAnyMore) {
  const StoredJob job(store_, name("job"));
  const auto old = Leadership::campaign(job, {"127.0.0.1", 1}, 60s, testing::soon());
  old->write(JobRecord{.membership = {.generation = 1}});
  const std::string leader = job.name_of("leader");
  const auto entry = store_->get(leader, testing::soon());
  ASSERT_TRUE(store_->commit({.puts = {{leader, "127.0.0.1:9 another"}}}, testing::soon()));
  EXPECT_TRUE(old->is_valid());  // as far as it knows
  EXPECT_THROW(old->write(JobRecord{.membership = {.generation = 2}}), Deposed);
  EXPECT_FALSE(old->is_valid());
  EXPECT_THROW(old->write("name", {1, "x"}), Deposed);
  EXPECT_EQ(job.record(testing::soon())->membership.generation, 1);
  EXPECT_EQ(job.leader(testing::soon())->endpoint.port, 9);
}

// A try that was given up may reach the store later than the next change of the same name.
TEST_P(AnyStore, AWriteThatComesLateDoesNotUndoANewerOne) {
  const auto seen = std::make_shared<testing::TroubledStore>(store_);
  const StoredJob job(seen, name("job"));
  const auto leader = Leadership::campaign(job, {"127.0.0.1", 1}, 60s, testing::soon());
  leader->write("server", {1, "old"});
  const StoreChange late = seen->changes().back();
  leader->write("server", {2, "new"});
  const auto newer = store_->get(job.name_of("registry/server"), testing::soon());
  EXPECT_FALSE(store_->commit(late, testing::soon()));
  EXPECT_EQ(store_->get(job.name_of("registry/server"), testing::soon())->value, newer->value);
  leader->write("server", {3, "newest"});  // goes on from its own
  EXPECT_TRUE(leader->is_valid());
}

// What the one before it wrote, it goes on from.
TEST_P(AnyStore, TheNextLeaderCanChangeWhatTheOneBeforeItPut) {
  const StoredJob job(store_, name("job"));
  Leadership::campaign(job, {"127.0.0.1", 1}, 60s, testing::soon())->write("server", {1, "old"});
  const auto next = Leadership::campaign(job, {"127.0.0.1", 2}, 60s, testing::soon());
  next->write("server", {2, "new"});
  next->write("other", {1, "new"});
  EXPECT_TRUE(next->is_valid());
}

INSTANTIATE_TEST_SUITE_P(Each, AnyStore, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Etcd" : "Memory"; });

TEST(Leadership, EndsWhenTheStoreWasNotReachedForTheLengthOfItsLease) {
  const auto store = std::make_shared<testing::TroubledStore>(std::make_shared<MemoryStore>());
  const StoredJob job(store, "job");
  const auto leader = Leadership::campaign(job, {"127.0.0.1", 1}, 2s, testing::soon());
  const auto deadline = comm::Clock::now() + 60s;
  while (store->kept_alive < 4 && comm::Clock::now() < deadline) std::this_thread::sleep_for(10ms);
  EXPECT_TRUE(leader->is_valid());  // for longer than its lease
  store->is_cut = true;
  while (leader->is_valid() && comm::Clock::now() < deadline) std::this_thread::sleep_for(10ms);
  EXPECT_FALSE(leader->is_valid());
  store->is_cut = false;
  EXPECT_THROW(leader->write(JobRecord{}), Deposed);
}

TEST(EtcdStore, OfThreeServersOneMayDie) {
  if (!EtcdServers::are_installed()) GTEST_SKIP() << "etcd-server is not installed";
  EtcdServers servers(3);
  const auto store = open_store(servers.address());
  const auto first = store->commit({.puts = {{"a", "1"}}}, testing::soon());
  ASSERT_TRUE(first);
  servers.kill(0);  // the one that is asked first
  EXPECT_EQ(store->get("a", comm::Clock::now() + 60s)->value, "1");
  const auto second = store->commit({.conditions = {{"a", *first}}, .puts = {{"a", "2"}}},
                                    comm::Clock::now() + 60s);
  EXPECT_TRUE(second);
  EXPECT_EQ(store->get("a", testing::soon())->value, "2");
}

TEST(EtcdStore, WhatIsNotThereIsNamed) {
  const auto port = comm::local_endpoint(comm::listen_on({"127.0.0.1", 0})).port;
  const std::string address = fmt::format("etcd://127.0.0.1:{},localhost:{}", port, port);
  try {
    open_store(address)->get("a", comm::Clock::now() + 300ms);
    FAIL();
  } catch (const IoError& error) {
    const std::string text = error.what();
    EXPECT_TRUE(text.starts_with("store: " + address + " does not answer")) << text;
    EXPECT_NE(text.find("refused"), std::string::npos) << text;
  }
}

// One that takes connections, and says nothing.
TEST(EtcdStore, AServerThatHangsIsGivenUpAtTheDeadline) {
  const comm::Socket silent = comm::listen_on({"127.0.0.1", 0});
  const auto store = open_store("etcd://" + to_string(comm::local_endpoint(silent)));
  try {
    store->get("a", comm::Clock::now() + 300ms);
    FAIL();
  } catch (const IoError& error) {
    EXPECT_NE(std::string(error.what()).find("did not answer in time"), std::string::npos);
  }
}

TEST(EtcdStore, WhatIsNoAnswerOfEtcdsIsNamed) {
  const comm::Socket listener = comm::listen_on({"127.0.0.1", 0});
  const std::jthread other([&] {
    pollfd asked{listener.fd(), POLLIN, 0};  // the listener does not wait in accept
    EXPECT_EQ(::poll(&asked, 1, 30000), 1);
    const comm::Socket one(::accept(listener.fd(), nullptr, nullptr));
    std::array<char, 4096> request{};
    EXPECT_GT(::recv(one.fd(), request.data(), request.size(), 0), 0);
    constexpr std::string_view kReply = "HTTP/1.1 200 OK\r\n\r\n{\"kvs\":[1]}";
    EXPECT_GT(::send(one.fd(), kReply.data(), kReply.size(), MSG_NOSIGNAL), 0);
    // A socket closed with unread bytes takes its answer back: the rest of the request is read.
    ::shutdown(one.fd(), SHUT_WR);
    while (::recv(one.fd(), request.data(), request.size(), 0) > 0) continue;
  });
  const auto store = open_store("etcd://" + to_string(comm::local_endpoint(listener)));
  try {
    store->get("a", testing::soon());
    FAIL();
  } catch (const IoError& error) {
    EXPECT_NE(std::string(error.what()).find("does not answer as etcd does"), std::string::npos);
  }
}

TEST(OpenStore, RefusesWhatIsNoAddress) {
  for (const char* wrong : {"", "etcd", "http://a:1", "etcd://", "etcd://a:1,", "etcd://a:x",
                            "etcd://a:1/b", "etcd://,a:1"})
    EXPECT_THROW(open_store(wrong), InvalidArgument) << wrong;
  EXPECT_EQ(open_store("etcd://a")->name(), "etcd://a");
}

}  // namespace
}  // namespace lockstep::cluster
