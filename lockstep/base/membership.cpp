// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/membership.h"

#include <algorithm>

#include "lockstep/base/error.h"

namespace lockstep {

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
  return deal_shards(parts, count(Role::worker));
}

Membership alone() { return {.members = {Member{}}}; }

}  // namespace lockstep
