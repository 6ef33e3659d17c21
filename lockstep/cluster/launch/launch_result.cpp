// SPDX-License-Identifier: Apache-2.0
#include <signal.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "lockstep/base/error.h"
#include "lockstep/cluster/launch/launch.h"

namespace lockstep::cluster {
namespace {

bool is_failure(const MemberEnd& end) {
  return end.status != 0 && end.stopped_by() == 0 && !end.tolerated;
}

bool is_killed(const MemberEnd& end) {
  return end.signal != 0 && !end.by_launcher && end.stopped_by() == 0 && !end.tolerated;
}

bool is_lost(const MemberEnd& end) { return !end.lost.empty() && !end.tolerated; }

const MemberEnd* first_of(std::span<const MemberEnd> ends, bool (*condition)(const MemberEnd&)) {
  const auto found = std::find_if(ends.begin(), ends.end(), condition);
  return found == ends.end() ? nullptr : &*found;
}

class Blame {
 public:
  explicit Blame(const std::vector<Complaint>& complaints) : complaints_(complaints) {}

  // Whoever misses another one is not to blame, so follow who misses whom to one who does not.
  // Where that leads round in a circle, as where a link is cut, it is the one that most miss.
  std::int64_t follow(std::int64_t id) const {
    std::vector<std::int64_t> met{id};
    while (const Complaint* next = of(met.back())) {
      if (std::find(met.begin(), met.end(), next->of) != met.end()) return most_missed(met);
      met.push_back(next->of);
    }
    return met.back();
  }

 private:
  const Complaint* of(std::int64_t id) const {
    const Complaint* by_coordinator = nullptr;
    for (const Complaint& one : complaints_) {
      if (one.by == id && one.of != id) return &one;
      if (one.by < 0 && one.of != id && by_coordinator == nullptr) by_coordinator = &one;
    }
    return by_coordinator;
  }

  std::int64_t most_missed(const std::vector<std::int64_t>& ids) const {
    const auto count = [&](std::int64_t id) {
      return std::count_if(complaints_.begin(), complaints_.end(),
                           [&](const Complaint& one) { return one.of == id; });
    };
    return *std::max_element(ids.begin() + 1, ids.end(),
                             [&](std::int64_t a, std::int64_t b) { return count(a) < count(b); });
  }

  const std::vector<Complaint>& complaints_;
};

}  // namespace

int MemberEnd::stopped_by() const {
  if (by_launcher || !lost.empty()) return 0;
  for (const int asked : {SIGINT, SIGTERM, SIGHUP})
    if (signal == asked || status == 128 + asked) return asked;
  return 0;
}

std::string MemberEnd::name() const {
  const std::string_view what = to_string(role);
  return host.empty() ? fmt::format("{} {}", what, rank)
                      : fmt::format("{} {} ({})", what, rank, host);
}

std::string MemberEnd::how() const {
  if (!lost.empty()) return fmt::format("was lost: {}", lost);
  if (!by_kernel.empty()) return fmt::format("was ended by the kernel: {}", by_kernel);
  if (!missed.empty()) return fmt::format("is missed by {}", missed);
  if (signal != 0) return fmt::format("was ended by signal {} ({})", signal, strsignal(signal));
  return fmt::format("ended with status {}", status);
}

std::string MemberEnd::str() const { return name() + " " + how(); }

const MemberEnd* LaunchResult::end_of(std::int64_t id) const {
  const auto found =
      std::find_if(ends.begin(), ends.end(), [&](auto& one) { return one.id == id; });
  return found == ends.end() ? nullptr : &*found;
}

// A host that was lost or a worker that was killed makes the others fail, maybe before we hear of
// it; else it is who failed first, or who that one missed.
const MemberEnd* LaunchResult::culprit() const {
  const auto known = std::span(ends).first(stopped_by == 0 ? ends.size() : ended_before_stop);
  if (const MemberEnd* end = first_of(known, is_lost)) return end;
  if (const MemberEnd* end = first_of(known, is_killed)) return end;
  const MemberEnd* first = first_of(known, is_failure);
  if (first == nullptr) return nullptr;
  const MemberEnd* blamed = end_of(Blame(complaints).follow(first->id));
  if (blamed == nullptr) return first;
  if (blamed->tolerated) return first;
  return blamed->stopped_by() != 0 ? nullptr : blamed;
}

bool LaunchResult::is_good() const {
  return !ends.empty() && std::all_of(ends.begin(), ends.end(), [](const MemberEnd& end) {
    return end.is_good() || end.tolerated;
  });
}

const MemberEnd* LaunchResult::first_unruly() const {
  if (const MemberEnd* end = first_of(ends, is_lost)) return end;
  return first_of(
      ends, [](auto& one) { return !one.is_good() && one.stopped_by() == 0 && !one.tolerated; });
}

// What the others say of it matters where its own end says nothing: it hung until we ended it, or
// blames another one in turn.
void LaunchResult::note_complaints() {
  const auto complains = [&](std::int64_t id) {
    return std::any_of(complaints.begin(), complaints.end(),
                       [&](const Complaint& one) { return one.by == id; });
  };
  for (MemberEnd& end : ends)
    for (const Complaint& one : complaints) {
      const bool says_nothing = end.is_good() || end.by_launcher || complains(end.id);
      if (one.of != end.id || !end.missed.empty() || !says_nothing) continue;
      const MemberEnd* by = end_of(one.by);
      end.missed = (by == nullptr ? "the launcher" : by->name()) + ": " + one.text;
    }
}

}  // namespace lockstep::cluster
