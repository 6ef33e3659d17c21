// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/long_work.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "lockstep/cluster/membership/workers_of.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/comm/errors.h"
#include "lockstep/comm/transports/in_process.h"
#include "lockstep/kvstore/group.h"

namespace lockstep::kvstore {
namespace {

using namespace std::chrono_literals;

// What each of the workers says of its work: nothing, or its error. Calls `ended` as each ends.
std::vector<std::string> run(
    int workers, std::chrono::milliseconds patience, const std::function<void(int rank)>& work,
    const std::function<void()>& ended = [] {}) {
  comm::InProcessGroup group(std::vector<std::string>(static_cast<std::size_t>(workers), "here"));
  std::vector<std::future<std::string>> all;
  for (int rank = 0; rank < workers; ++rank)
    all.push_back(std::async(std::launch::async, [&, rank] {
      comm::Communicator communicator(group.connect(rank));
      const auto group = group_of(communicator, cluster::workers_of(communicator), 20s);
      std::string said;
      try {
        work_together(*group, patience, "dig", [&] { work(rank); });
      } catch (const Error& error) {
        said = std::string(error.kind()) + ": " + error.what();
      }
      ended();
      return said;
    }));
  std::vector<std::string> said;
  for (auto& one : all) said.push_back(one.get());
  return said;
}

// Busy until somebody says that it is enough.
void compute(std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  for (volatile int i = 0; std::chrono::steady_clock::now() < end;) i = i + 1;
}

TEST(LongWork, MayTakeLongerThanThePatienceAsLongAsItGoesOn) {
  const auto said = run(3, 200ms, [](int rank) { compute(rank == 1 ? 1500ms : 1ms); });
  EXPECT_EQ(said, std::vector<std::string>(3));
}

TEST(LongWork, ThatStandsStillIsNamed) {
  std::promise<void> others;
  const auto know = others.get_future().share();
  std::atomic<int> ended = 0;
  const auto stand_still = [&](int rank) {
    if (rank == 1) know.wait_for(60s);
  };
  // The others know; the one that stands still does not, before it can go on.
  const auto count = [&] {
    if (++ended == 2) others.set_value();
  };
  for (const std::string& one : run(3, 200ms, stand_still, count))
    EXPECT_EQ(
        one,
        "Timeout: dig: worker 1 has used no processor time for 0.2 s: it waits for a file or a "
        "device that does not answer, or its host is crowded");
}

TEST(LongWork, ThatFailsIsEverybodysFailure) {
  const auto said = run(3, 200ms, [](int rank) {
    if (rank == 2) throw NotFound("no spade");
  });
  EXPECT_EQ(said[0], "Aborted: dig: worker 2 gave up: no spade");
  EXPECT_EQ(said[1], said[0]);
  EXPECT_EQ(said[2], "NotFound: no spade");
}

// As when it reads a checkpoint of many gigabytes, while the others wait with a shorter deadline.
TEST(LongWork, OfTheFirstForAllMayTakeLongerThanACall) {
  comm::InProcessGroup ranks({"here", "here"});
  const auto part = [&](int rank) {
    comm::Communicator communicator(ranks.connect(rank));
    const auto group = group_of(communicator, cluster::workers_of(communicator), 1500ms);
    return first_does(*group, [] {
      compute(4s);
      return std::string("read");
    });
  };
  auto other = std::async(std::launch::async, part, 1);
  EXPECT_EQ(part(0), "read");
  EXPECT_EQ(other.get(), "read");
}

TEST(LongWork, OfOneAloneIsOnlyWork) {
  int done = 0;
  const auto alone = group_of_one();
  work_together(*alone, 1ms, "dig", [&] { ++done; });
  EXPECT_EQ(done, 1);
}

}  // namespace
}  // namespace lockstep::kvstore
