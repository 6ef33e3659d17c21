// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/membership/detail/gather_service.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace lockstep::cluster::detail {

using comm::Clock;

void GatherService::answer(const comm::MessageEvent& request, const Message& message) const {
  calls_.reply(request, comm::Payload(encode(message)));
}

void GatherService::begin() {
  has_begun_ = true;
  pass_on(Role::worker);
  pass_on(Role::server);
}

void GatherService::take(Participant& one, const comm::MessageEvent& request,
                         const Gather& gather) {
  if (has_generations(one.join.role) && !generations_.is_current(one, gather.generation))
    return answer(request, Denied{Denied::Type::lost, Role::worker, -1, "",
                                  "rendezvous: the generation is over"});
  one.gather_deadline = Clock::now() + gather.timeout;
  one.given.push_back({request, gather.bytes});
  for (const Participant* other : group_of(one.join.role))
    if (has_begun_ && other->left)
      return deny(*other, fmt::format("rendezvous: {} has left the job", other->title()));
  pass_on(one.join.role);
}

void GatherService::deny(const Participant& lost, const std::string& text) {
  const Failure failure{Failure::Type::lost, lost.join.role, lost.rank, lost.host, text};
  for (Participant* one : roster_.members(lost.join.role)) {
    one->gather_deadline = comm::Deadline::max();
    for (const Participant::Gift& gift : std::exchange(one->given, {}))
      if (!one->left) answer(gift.request, failure);
  }
}

// Servers are the same ones from the beginning to the end.
bool GatherService::has_generations(Role role) const {
  return role == Role::worker && generations_.has_begun();
}

std::vector<Participant*> GatherService::group_of(Role role) const {
  return has_generations(role) ? generations_.workers() : roster_.members(role);
}

void GatherService::pass_on(Role role) {
  const std::vector<Participant*> all = group_of(role);
  const auto has_given = [](auto* one) { return !one->given.empty(); };
  if (!has_begun_ || all.empty() || !std::all_of(all.begin(), all.end(), has_given)) return;
  Gathered gathered;
  for (Participant* member : all) {
    member->gather_deadline = comm::Deadline::max();
    gathered.all.push_back(std::move(member->given.front().bytes));
  }
  const comm::Payload reply(encode(gathered));
  if (reply.size() > kLongestMessage)
    calls_.fail({Failure::Type::refused, role, -1, place_.host,
                 fmt::format("rendezvous at {}: the {}s gave {} bytes to an all_gather, expected "
                             "at most {} together",
                             to_string(place_), to_string(role), reply.size(), kLongestMessage)});
  for (Participant* member : all) {
    calls_.reply(member->given.front().request, reply);
    member->given.pop_front();
  }
}

void GatherService::check_deadlines() {
  const auto now = Clock::now();
  for (const Participant* waiting : roster_.members())
    if (waiting->gather_deadline <= now)
      for (Participant* missing : group_of(waiting->join.role))
        if (missing->given.empty()) return miss(*missing, *waiting);
}

void GatherService::miss(Participant& missing, const Participant& waiting) {
  calls_.miss(
      missing,
      fmt::format("rendezvous: {} did not do its part of an all_gather in time; {} waits for it",
                  missing.title(), waiting.title()));
}

}  // namespace lockstep::cluster::detail
