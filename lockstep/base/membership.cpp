// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/membership.h"

#include <algorithm>

namespace lockstep {

int Membership::count(Role role) const {
  return static_cast<int>(std::count_if(members.begin(), members.end(),
                                        [&](const Member& member) { return member.role == role; }));
}

std::vector<ShardRange> Membership::deal(std::int64_t parts) const {
  return deal_shards(parts, count(Role::worker));
}

Membership alone() { return {.members = {Member{}}}; }

}  // namespace lockstep
