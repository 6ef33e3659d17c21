// SPDX-License-Identifier: Apache-2.0
//
// Does what long-lived programs do, again and again, and watches what the process holds: memory,
// threads, descriptors and shared memory must be flat once everything has happened a few times.
//   lockstep_soak SECONDS [ACTIVITY]     only those whose name has ACTIVITY in it
// Prints a line now and then and a verdict; exit status 1 when something grows.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <vector>

#include "tests/soak/activities.h"
#include "tests/soak/gauges.h"

namespace lockstep::testing {
namespace {

using Clock = std::chrono::steady_clock;

// Rounds vary with a period of 12 (threads x workers x compression).
constexpr std::size_t kPeriod = 12, kLeastRounds = 2 * kPeriod;
constexpr auto kBetweenLines = std::chrono::seconds(10);
// What the C library's heaps may differ by from one time to another.
constexpr double kSlack = 1.03;
constexpr std::int64_t kSlackKb = 6000;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

template <class Value>
std::int64_t most(std::span<const Gauges> rounds, Value Gauges::*member) {
  return std::ranges::max(rounds, {}, member).*member;
}

template <class Value>
std::int64_t least(std::span<const Gauges> rounds, Value Gauges::*member) {
  return std::ranges::min(rounds, {}, member).*member;
}

// Rounds were warm after their first third. What the last third holds at most, the middle one did.
class Verdict {
 public:
  explicit Verdict(const std::vector<Gauges>& rounds) {
    const std::span all(rounds);
    const std::size_t third = all.size() / 3;
    middle_ = all.subspan(third, third);
    last_ = all.subspan(all.size() - third);
  }

  std::vector<std::string> problems() const {
    std::vector<std::string> found;
    const auto exact = [&](const char* what, std::int64_t Gauges::*member) {
      if (most(last_, member) > most(middle_, member) &&
          least(last_, member) > least(middle_, member))
        found.push_back(fmt::format("{}: {} to {}, then {} to {}", what, least(middle_, member),
                                    most(middle_, member), least(last_, member),
                                    most(last_, member)));
    };
    exact("threads", &Gauges::threads);
    exact("descriptors", &Gauges::descriptors);
    exact("mappings of /dev/shm", &Gauges::shared_memory);
    exact("bytes that tensors hold", &Gauges::live_bytes);
    const std::int64_t before = most(middle_, &Gauges::resident_kb);
    const std::int64_t after = most(last_, &Gauges::resident_kb);
    if (static_cast<double>(after) > kSlack * static_cast<double>(before) + kSlackKb)
      found.push_back(fmt::format("memory: {} kB, then {} kB", before, after));
    return found;
  }

 private:
  std::span<const Gauges> middle_, last_;
};

// A verdict that sees nothing is worth nothing: one more of each thing in every round must show.
bool sees_growth() {
  const auto problems_of = [](std::int64_t Gauges::*member, std::int64_t step) {
    std::vector<Gauges> rounds(kLeastRounds);
    for (std::size_t i = 0; i < rounds.size(); ++i)
      rounds[i].*member = 100 + step * static_cast<std::int64_t>(i);
    return Verdict(rounds).problems().size();
  };
  for (const auto member :
       {&Gauges::threads, &Gauges::descriptors, &Gauges::shared_memory, &Gauges::live_bytes})
    if (problems_of(member, 1) != 1 || problems_of(member, 0) != 0) return false;
  return problems_of(&Gauges::resident_kb, 2000) == 1 && problems_of(&Gauges::resident_kb, 0) == 0;
}

int soak(double seconds, const std::string& wanted) {
  const std::string folder =
      (std::filesystem::temp_directory_path() / fmt::format("lockstep-soak-{}", ::getpid()))
          .string();
  std::vector<Activity> activities = soak_activities(folder);
  std::erase_if(activities, [&](const Activity& activity) {
    return activity.name.find(wanted) == std::string::npos;
  });
  if (activities.empty()) {
    fmt::print(stderr, "soak: no activity is named '{}'\n", wanted);
    return 2;
  }
  const Clock::time_point begin = Clock::now();
  Clock::time_point told = begin;
  std::vector<Gauges> rounds;
  while (seconds_since(begin) < seconds || rounds.size() < kLeastRounds) {
    for (const Activity& activity : activities)
      activity.run(static_cast<std::int64_t>(rounds.size()));
    rounds.push_back(read_gauges());
    if (Clock::now() - told < kBetweenLines) continue;
    told = Clock::now();
    fmt::print("{:7.1f} s  round {}: {}\n", seconds_since(begin), rounds.size(),
               rounds.back().str());
    std::fflush(stdout);
  }
  std::filesystem::remove_all(folder);
  const std::vector<std::string> problems = Verdict(rounds).problems();
  for (const std::string& problem : problems) fmt::print("soak: grows: {}\n", problem);
  fmt::print("soak: {} rounds of {} activities in {:.0f} s: {}\n", rounds.size(), activities.size(),
             seconds_since(begin), problems.empty() ? "flat" : "NOT FLAT");
  return problems.empty() ? 0 : 1;
}

}  // namespace
}  // namespace lockstep::testing

int main(int argc, char** argv) {
  if (!lockstep::testing::sees_growth()) {
    fmt::print(stderr, "soak: what grows would not be seen\n");
    return 2;
  }
  const double seconds = argc > 1 ? std::atof(argv[1]) : 20.0;
  return lockstep::testing::soak(seconds, argc > 2 ? argv[2] : "");
}
