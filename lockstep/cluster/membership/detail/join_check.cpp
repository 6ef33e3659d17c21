// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/membership/detail/join_check.h"

#include <fmt/core.h>

#include "lockstep/cluster/membership/detail/differences.h"

namespace lockstep::cluster::detail {
namespace {

// What differs in how large two members take the job to be.
std::string size_difference(const JobSize& its, const JobSize& ours) {
  if (its.servers == 0 && ours.servers == 0)
    return fmt::format("it expects {} members, this job has {}", its.workers, ours.workers);
  return fmt::format("it expects {} workers and {} servers, this job has {} and {}", its.workers,
                     its.servers, ours.workers, ours.servers);
}

bool want_one_rank(const Participant& one, const Participant& other) {
  return one.join.role == other.join.role && one.join.rank >= 0 && one.join.rank == other.join.rank;
}

}  // namespace

std::string difference(const Participant& one, const Participant& other) {
  if (one.join.version != other.join.version)
    return fmt::format("its version is {}, that of {} is {}", one.join.version, other.title(),
                       other.join.version);
  const bool takes_any = one.join.is_late && one.join.configuration.empty();  // it has yet to ask
  if (!takes_any && one.join.configuration != other.join.configuration)
    return fmt::format("its configuration differs from that of {}: {}", other.title(),
                       differences(one.join.configuration, other.join.configuration));
  return {};
}

std::string why_unfit(const Participant& one, const Roster& roster) {
  const JobSize size{one.join.workers, one.join.servers};
  if (size != roster.size()) return size_difference(size, roster.size());
  int alike = 0;
  for (const Participant* other : roster.members()) {
    if (std::string why = difference(one, *other); !why.empty()) return why;
    if (want_one_rank(one, *other))
      return fmt::format("{} is {}'s already", rank_title(one.join.role, one.join.rank),
                         other->host);
    alike += other->join.role == one.join.role ? 1 : 0;
  }
  const int wanted = roster.size().of(one.join.role);
  if (alike >= wanted)
    return fmt::format("this job has all its {}s already", to_string(one.join.role));
  if (one.join.rank >= wanted)
    return fmt::format("it asks for {}, this job has {}", rank_title(one.join.role, one.join.rank),
                       wanted);
  return {};
}

}  // namespace lockstep::cluster::detail
