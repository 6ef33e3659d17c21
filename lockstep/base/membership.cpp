// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/membership.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

// Where the weights add up to `parts`, they are the ranges' sizes.
std::vector<ShardRange> deal_weighted(std::int64_t parts, std::span<const std::int64_t> weights) {
  const std::int64_t total = std::accumulate(weights.begin(), weights.end(), std::int64_t{0});
  std::vector<ShardRange> ranges;
  std::int64_t before = 0;
  for (const std::int64_t weight : weights) {
    ranges.push_back({parts * before / total, parts * (before + weight) / total});
    before += weight;
  }
  return ranges;
}

}  // namespace

std::string_view to_string(Role role) { return role == Role::worker ? "worker" : "server"; }

int Membership::count(Role role) const {
  return static_cast<int>(std::count_if(members.begin(), members.end(),
                                        [&](const Member& member) { return member.role == role; }));
}

int Membership::rank_of(std::int64_t id) const {
  const auto found =
      std::find_if(members.begin(), members.end(), [&](const Member& one) { return one.id == id; });
  if (found == members.end())
    throw NotFound("membership: generation {} has no member {}", generation, id);
  return static_cast<int>(std::count_if(
      members.begin(), found, [&](const Member& one) { return one.role == found->role; }));
}

std::vector<std::string> Membership::hosts_of(Role role) const {
  std::vector<std::string> hosts;
  for (const Member& member : members)
    if (member.role == role) hosts.push_back(member.host);
  return hosts;
}

std::vector<ShardRange> Membership::deal(std::int64_t parts) const {
  if (!weights.empty()) return deal_weighted(parts, weights);
  return deal_shards(parts, count(Role::worker));
}

Membership Membership::weighted(std::vector<std::int64_t> given) const {
  if (!given.empty() && static_cast<int>(given.size()) != count(Role::worker))
    throw InvalidArgument("membership: {} weights for {} workers", given.size(),
                          count(Role::worker));
  for (const std::int64_t weight : given)
    if (weight < 1) throw InvalidArgument("membership: a weight of {}, expected 1 or more", weight);
  Membership result = *this;
  result.weights = std::move(given);
  return result;
}

Membership alone() { return {.members = {Member{}}}; }

}  // namespace lockstep
