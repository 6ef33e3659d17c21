// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/shard_tree.h"

namespace lockstep {

// A worker computes shards; a server holds parameters.
enum class Role : std::uint8_t { worker, server };

std::string_view to_string(Role role);

struct Member {
  std::int64_t id = 0;  // for the life of the job; a new process has a new one
  std::string host = "localhost";
  Role role = Role::worker;
  bool operator==(const Member&) const = default;
};

// Who is in a job: the workers in order of rank, then the servers. The value never changes: a new
// one, of a higher generation, takes its place.
struct Membership {
  std::int64_t generation = 0;
  std::vector<Member> members = {};
  // Of the workers, by rank: parts are dealt in this proportion. Empty: evenly.
  std::vector<std::int64_t> weights = {};
  bool operator==(const Membership&) const = default;

  int count(Role role) const;
  // A member's place among those of its role. Throws NotFound.
  int rank_of(std::int64_t id) const;
  // The hosts of those of a role, in order of rank.
  std::vector<std::string> hosts_of(Role role) const;
  // Which of `parts` (shards of a step, batches of an evaluation) each worker computes: contiguous
  // ranges in the order of the workers. Whoever needs a range has it from here.
  std::vector<ShardRange> deal(std::int64_t parts) const;
  // The same members with these weights, one for each worker. Throws InvalidArgument.
  Membership weighted(std::vector<std::int64_t> weights) const;
};

// One worker on this host.
Membership alone();

}  // namespace lockstep
