// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/stall.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <vector>

namespace lockstep::observe {
namespace {

bool is_worker(const MemberStatus& member) {
  return member.role == "worker" && member.rank >= 0 && !member.has_left;
}

// Who waits for whom, of those that have waited long enough.
std::map<int, int> waits_of(std::span<const MemberStatus> members, double longest) {
  std::map<int, int> waits;
  for (const MemberStatus& one : members)
    if (is_worker(one) && one.waiting && one.waiting->rank >= 0 && one.waiting->seconds >= longest)
      waits[one.rank] = one.waiting->rank;
  return waits;
}

// Follows who waits for whom to one who waits for nobody, or into a circle.
int end_of(const std::map<int, int>& waits, int rank) {
  for (std::size_t i = 0; i < waits.size() && waits.contains(rank); ++i) rank = waits.at(rank);
  return rank;
}

}  // namespace

std::optional<Stall> find_stall(std::span<const MemberStatus> members,
                                std::chrono::milliseconds longest) {
  const double seconds = std::chrono::duration<double>(longest).count();
  const std::map<int, int> waits = waits_of(members, seconds);
  std::map<int, int> held_up;
  for (const auto& [rank, other] : waits) ++held_up[end_of(waits, other)];
  const auto worst =
      std::max_element(held_up.begin(), held_up.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (worst == held_up.end()) return {};
  for (const MemberStatus& one : members)
    if (is_worker(one) && one.waiting && waits.contains(one.rank) &&
        waits.at(one.rank) == worst->first)
      return Stall{worst->first,
                   fmt::format("nothing has moved for {:.1f} s: worker {} waits for it in {}",
                               seconds, one.id, one.waiting->operation)};
  return {};
}

}  // namespace lockstep::observe
