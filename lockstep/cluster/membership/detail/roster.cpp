// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/membership/detail/roster.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace lockstep::cluster::detail {

std::string rank_title(Role role, int rank) {
  return fmt::format("{} {}", role == Role::worker ? "rank" : "server", rank);
}

std::string Participant::title() const {
  const std::string name = host.empty() ? to_string(peer.from) : host;
  const int number = known_rank();
  return number < 0 ? name : fmt::format("{} ({})", rank_title(join.role, number), name);
}

Participant* Roster::find(std::uint64_t peer) const {
  for (const auto& one : participants_)
    if (one->peer.id == peer && !one->left) return one.get();
  return nullptr;
}

std::vector<Participant*> Roster::members() const {
  std::vector<Participant*> found;
  for (const auto& one : participants_)
    if (one->joined) found.push_back(one.get());
  std::stable_sort(found.begin(), found.end(), [](auto* a, auto* b) { return a->id < b->id; });
  return found;
}

std::vector<Participant*> Roster::members(Role role) const {
  std::vector<Participant*> found = members();
  std::erase_if(found, [&](auto* one) { return one->join.role != role; });
  return found;
}

const Participant* Roster::member(std::int64_t id) const {
  for (const auto& one : participants_)
    if (one->joined && one->id == id && id >= 0) return one.get();
  return nullptr;
}

void Roster::complete() {
  deal_ranks(Role::worker);
  deal_ranks(Role::server);
  for (Participant* member : members()) member->id = size_.id_of(member->join.role, member->rank);
  disambiguate_hosts();
}

// What they ask for first; then the free ranks, so that those of one machine are neighbours.
void Roster::deal_ranks(Role role) {
  std::vector<Participant*> all = members(role);
  std::set<int> free;
  for (int rank = 0; rank < size_.of(role); ++rank) free.insert(rank);
  for (Participant* member : all) free.erase(member->rank = member->join.rank);
  std::stable_sort(all.begin(), all.end(), [](auto* a, auto* b) {
    return std::tie(a->host, a->join.machine) < std::tie(b->host, b->join.machine);
  });
  for (Participant* member : all)
    if (member->rank < 0) member->rank = free.extract(free.begin()).value();
}

// Machines that happen to have the same name get different ones.
void Roster::disambiguate_hosts() {
  std::map<std::string, std::vector<std::string>> machines;
  for (Participant* member : members()) {
    auto& known = machines[member->host];
    const auto place = std::find(known.begin(), known.end(), member->join.machine) - known.begin();
    if (place == static_cast<std::ptrdiff_t>(known.size())) known.push_back(member->join.machine);
    if (place > 0) member->host += fmt::format("#{}", place + 1);
  }
}

Membership Roster::membership(std::int64_t generation) const {
  Membership membership{.generation = generation};
  for (const Participant* one : members())
    membership.members.push_back({.id = one->id, .host = one->host, .role = one->join.role});
  return membership;
}

std::vector<std::int64_t> Roster::absent() const {
  std::vector<std::int64_t> ids;
  for (const Participant* one : members())
    if (one->left || one->is_late) ids.push_back(one->id);
  return ids;
}

std::vector<ActivityOf> Roster::reports(comm::Deadline now) const {
  std::vector<ActivityOf> all;
  for (const Participant* one : members())
    all.push_back({one->id, one->report,
                   std::chrono::duration_cast<std::chrono::milliseconds>(now - one->reported_at),
                   one->left});
  return all;
}

bool Roster::have_workers_left() const {
  const std::vector<Participant*> workers = members(Role::worker);
  return std::all_of(workers.begin(), workers.end(), [](auto* one) { return one->left; });
}

std::vector<std::int64_t> Roster::missing() const {
  std::set<std::int64_t> ids;
  for (int id = 0; id < size_.members(); ++id) ids.insert(id);
  for (const Participant* one : members()) {
    if (one->join.rank < 0) return {};
    ids.erase(size_.id_of(one->join.role, one->join.rank));
  }
  return {ids.begin(), ids.end()};
}

std::string Roster::who_is_there() const {
  std::string text;
  for (const Participant* one : members())
    text += (text.empty() ? "; there: " : ", ") + one->title();
  const std::vector<std::int64_t> absent = missing();
  if (!absent.empty()) text += "; missing: " + titles(absent);
  return text;
}

std::string Roster::titles(const std::vector<std::int64_t>& ids) const {
  std::vector<std::int64_t> workers, servers;
  for (const std::int64_t id : ids)
    id < size_.workers ? workers.push_back(id) : servers.push_back(id - size_.workers);
  std::string text;
  if (!workers.empty()) text += fmt::format("rank {}", fmt::join(workers, ", "));
  if (!servers.empty())
    text += fmt::format("{}server {}", text.empty() ? "" : ", ", fmt::join(servers, ", "));
  return text;
}

}  // namespace lockstep::cluster::detail
