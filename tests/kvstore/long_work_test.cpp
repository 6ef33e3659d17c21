// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/long_work.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "lockstep/cluster/membership/workers_of.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/comm/errors.h"
#include "lockstep/comm/transports/in_process.h"
#include "lockstep/kvstore/group.h"

namespace lockstep::kvstore {
namespace {

using namespace std::chrono_literals;

// What each of the workers says of its work: nothing, or its error.
std::vector<std::string> run(int workers, std::chrono::milliseconds patience,
                             const std::function<void(int rank)>& work) {
  comm::InProcessGroup group(std::vector<std::string>(static_cast<std::size_t>(workers), "here"));
  std::vector<std::future<std::string>> all;
  for (int rank = 0; rank < workers; ++rank)
    all.push_back(std::async(std::launch::async, [&, rank] {
      comm::Communicator communicator(group.connect(rank));
      const auto group = group_of(communicator, cluster::workers_of(communicator), 20s);
      try {
        work_together(*group, patience, "dig", [&] { work(rank); });
        return std::string();
      } catch (const Error& error) {
        return std::string(error.kind()) + ": " + error.what();
      }
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
  std::promise<void> end;
  const auto wait = end.get_future().share();
  auto said = std::async(std::launch::async, [&] {
    return run(3, 200ms, [&](int rank) {
      if (rank == 1) wait.wait();
    });
  });
  // The others know; the one that stands still does not, before it can go on.
  std::this_thread::sleep_for(1500ms);
  end.set_value();
  for (const std::string& one : said.get())
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

TEST(LongWork, OfOneAloneIsOnlyWork) {
  int done = 0;
  const auto alone = group_of_one();
  work_together(*alone, 1ms, "dig", [&] { ++done; });
  EXPECT_EQ(done, 1);
}

}  // namespace
}  // namespace lockstep::kvstore
