// SPDX-License-Identifier: Apache-2.0
#include <signal.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "lockstep/base/error.h"
#include "lockstep/cluster/launch/launch.h"

namespace lockstep::cluster {
namespace {

bool is_failure(const WorkerEnd& end) { return end.status != 0 && end.stopped_by() == 0; }

bool is_killed(const WorkerEnd& end) {
  return end.signal != 0 && !end.by_launcher && end.stopped_by() == 0;
}

const WorkerEnd* first_of(std::span<const WorkerEnd> ends, bool (*condition)(const WorkerEnd&)) {
  const auto found = std::find_if(ends.begin(), ends.end(), condition);
  return found == ends.end() ? nullptr : &*found;
}

class Blame {
 public:
  explicit Blame(const std::vector<Complaint>& complaints) : complaints_(complaints) {}

  // Whoever misses another one is not to blame, so follow who misses whom to one who does not.
  // Where that leads round in a circle, as where a link is cut, it is the one that most miss.
  int follow(int rank) const {
    std::vector<int> met{rank};
    while (const Complaint* next = of(met.back())) {
      if (std::find(met.begin(), met.end(), next->rank) != met.end()) return most_missed(met);
      met.push_back(next->rank);
    }
    return met.back();
  }

 private:
  const Complaint* of(int rank) const {
    const Complaint* by_coordinator = nullptr;
    for (const Complaint& one : complaints_) {
      if (one.by == rank && one.rank != rank) return &one;
      if (one.by < 0 && one.rank != rank && by_coordinator == nullptr) by_coordinator = &one;
    }
    return by_coordinator;
  }

  int most_missed(const std::vector<int>& ranks) const {
    const auto count = [&](int rank) {
      return std::count_if(complaints_.begin(), complaints_.end(),
                           [&](const Complaint& one) { return one.rank == rank; });
    };
    return *std::max_element(ranks.begin() + 1, ranks.end(),
                             [&](int a, int b) { return count(a) < count(b); });
  }

  const std::vector<Complaint>& complaints_;
};

}  // namespace

int WorkerEnd::stopped_by() const {
  if (by_launcher || !lost.empty()) return 0;
  for (const int asked : {SIGINT, SIGTERM, SIGHUP})
    if (signal == asked || status == 128 + asked) return asked;
  return 0;
}

std::string WorkerEnd::name() const {
  return host.empty() ? fmt::format("worker {}", rank) : fmt::format("worker {} ({})", rank, host);
}

std::string WorkerEnd::str() const {
  if (!lost.empty()) return fmt::format("{} was lost: {}", name(), lost);
  if (!by_kernel.empty()) return fmt::format("{} was ended by the kernel: {}", name(), by_kernel);
  if (!missed.empty()) return fmt::format("{} is missed by {}", name(), missed);
  if (signal != 0)
    return fmt::format("{} was ended by signal {} ({})", name(), signal, strsignal(signal));
  return fmt::format("{} ended with status {}", name(), status);
}

const WorkerEnd* LaunchResult::end_of(int rank) const {
  const auto found =
      std::find_if(ends.begin(), ends.end(), [&](auto& one) { return one.rank == rank; });
  return found == ends.end() ? nullptr : &*found;
}

// A host that was lost or a worker that was killed makes the others fail, maybe before we hear of
// it; else it is who failed first, or who that one missed.
const WorkerEnd* LaunchResult::culprit() const {
  const auto known = std::span(ends).first(stopped_by == 0 ? ends.size() : ended_before_stop);
  if (const WorkerEnd* end = first_of(known, [](auto& one) { return !one.lost.empty(); }))
    return end;
  if (const WorkerEnd* end = first_of(known, is_killed)) return end;
  const WorkerEnd* first = first_of(known, is_failure);
  if (first == nullptr) return nullptr;
  const WorkerEnd* blamed = end_of(Blame(complaints).follow(first->rank));
  if (blamed == nullptr) return first;
  return blamed->stopped_by() != 0 ? nullptr : blamed;
}

const WorkerEnd* LaunchResult::first_unruly() const {
  if (const WorkerEnd* end = first_of(ends, [](auto& one) { return !one.lost.empty(); }))
    return end;
  return first_of(ends, [](auto& one) { return !one.is_good() && one.stopped_by() == 0; });
}

// What the others say of it matters where its own end says nothing: it hung until we ended it, or
// blames another one in turn.
void LaunchResult::note_complaints() {
  const auto complains = [&](int rank) {
    return std::any_of(complaints.begin(), complaints.end(),
                       [&](const Complaint& one) { return one.by == rank; });
  };
  for (WorkerEnd& end : ends)
    for (const Complaint& one : complaints) {
      const bool says_nothing = end.is_good() || end.by_launcher || complains(end.rank);
      if (one.rank != end.rank || !end.missed.empty() || !says_nothing) continue;
      const WorkerEnd* by = end_of(one.by);
      end.missed = (by == nullptr ? "the launcher" : by->name()) + ": " + one.text;
    }
}

}  // namespace lockstep::cluster
