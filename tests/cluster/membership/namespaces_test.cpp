// SPDX-License-Identifier: Apache-2.0
// Jobs over a real network between two hosts that are network namespaces of this one.
#include <gtest/gtest.h>

#include <thread>

#include "lockstep/base/hmac.h"
#include "lockstep/base/network_pair.h"
#include "lockstep/cluster/membership/coordinator.h"
#include "lockstep/cluster/membership/rendezvous.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/comm/group.h"
#include "tests/cluster/child.h"
#include "tests/event.h"

namespace lockstep::cluster {
namespace {

using namespace std::chrono_literals;
using comm::Communicator;
using comm::Element;
using comm::Reduction;
using lockstep::testing::Child;
using lockstep::testing::Event;

class Namespaces : public ::testing::Test {
 protected:
  static constexpr int kRanks = 4;  // two on each side

  void SetUp() override {
    const std::string reason = NetworkPair::why_not();
    if (!reason.empty()) GTEST_SKIP() << reason;
    pair_ = std::make_unique<NetworkPair>();
  }

  // Every rank in a process of its own, on its side.
  void start(const std::function<std::string(Communicator&)>& body,
             const std::string& transport = {}) {
    for (int rank = 0; rank < kRanks; ++rank)
      ranks_.emplace_back([=, this] {
        NetworkPair::enter(pair_->path(rank / 2));
        std::jthread coordinating;
        if (rank == 0) coordinating = std::jthread([this] { coordinate(); });
        Communicator comm(connect(rank, transport));
        return body(comm);
      });
  }

  std::string result(int rank) { return ranks_[static_cast<std::size_t>(rank)].result(); }

  // Everybody is in the middle of something when `harm` comes.
  void harm_and_expect_reports(const std::function<void()>& harm) {
    const Event busy[kRanks];
    start([&](Communicator& comm) {
      std::vector<float> data(300'000);
      const comm::CallOptions options{.timeout = 1500ms, .algorithm = comm::Algorithm::automatic};
      for (int i = 0; i < 100'000; ++i) {
        comm.all_reduce(std::as_writable_bytes(std::span(data)), Element::float32, Reduction::sum,
                        options);
        if (i == 3) busy[comm.rank()].set();
      }
      return std::string("never harmed");
    });
    for (const Event& one : busy) one.await();
    harm();
    for (int rank = 0; rank < kRanks; ++rank) {
      const std::string heard = result(rank);
      const char other = rank < 2 ? 'b' : 'a';
      EXPECT_NE(heard.find("all_reduce: "), std::string::npos) << rank << ": " << heard;
      EXPECT_NE(heard.find(fmt::format(" on {}", other)), std::string::npos)
          << rank << ": " << heard;
    }
  }

  std::unique_ptr<NetworkPair> pair_;
  std::vector<Child> ranks_;

 private:
  comm::Endpoint meeting_place() const { return {NetworkPair::address(0), 7077}; }

  void coordinate() const {
    CoordinatorOptions options;
    options.listen = meeting_place();
    options.secret = secret_;
    options.workers = kRanks;
    Coordinator(options).run();
  }

  std::unique_ptr<comm::Transport> connect(int rank, const std::string& transport) const {
    RendezvousOptions options;
    options.coordinator = meeting_place();
    options.secret = secret_;
    options.workers = kRanks;
    options.rank = rank;
    options.host = rank < 2 ? "a" : "b";
    Rendezvous rendezvous(options);
    return comm::find_transport(transport).connect(rendezvous.bootstrap());
  }

  std::string secret_ = make_secret();
};

std::string sum_and_compare(Communicator& comm, std::size_t count) {
  for (const auto algorithm :
       {comm::Algorithm::automatic, comm::Algorithm::ring, comm::Algorithm::central}) {
    std::vector<float> data(count, static_cast<float>(comm.rank() + 1));
    comm.all_reduce(std::as_writable_bytes(std::span(data)), Element::float32, Reduction::sum,
                    {.timeout = 20s, .algorithm = algorithm});
    if (data != std::vector<float>(count, 10.f)) return "wrong";
  }
  comm.barrier();
  return "right";
}

TEST_F(Namespaces, AGroupOfTwoHostsAddsUp) {
  start([](Communicator& comm) { return sum_and_compare(comm, 500'000); });
  for (int rank = 0; rank < kRanks; ++rank) EXPECT_EQ(result(rank), "right");
}

TEST_F(Namespaces, AnEncryptedGroupOfTwoHostsAddsUp) {
  start([](Communicator& comm) { return sum_and_compare(comm, 500'000); }, "zmq");
  for (int rank = 0; rank < kRanks; ++rank) EXPECT_EQ(result(rank), "right");
}

TEST_F(Namespaces, ASlowLinkIsSlowAndRight) {
  pair_->shape("100mbit");
  start([](Communicator& comm) { return sum_and_compare(comm, 500'000); });
  for (int rank = 0; rank < kRanks; ++rank) EXPECT_EQ(result(rank), "right");
}

TEST_F(Namespaces, WhenTheLinkIsCutEveryRankSaysWhoIsMissing) {
  harm_and_expect_reports([this] { pair_->cut(); });
}

TEST_F(Namespaces, WhenALinkOnlySeemsToWorkEveryRankSaysWhoIsMissing) {
  harm_and_expect_reports([this] {
    pair_->lose(0);
    pair_->lose(1);
  });
}

}  // namespace
}  // namespace lockstep::cluster
