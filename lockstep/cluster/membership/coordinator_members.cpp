// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/host_name.h"
#include "lockstep/cluster/membership/detail/coordinator_impl.h"
#include "lockstep/cluster/membership/detail/coordinator_server.h"
#include "lockstep/cluster/membership/detail/join_check.h"

namespace lockstep::cluster {
namespace {

using comm::Clock;
using detail::Message;
using Kind = comm::MessageEvent::Kind;

constexpr auto kLinger = std::chrono::seconds(2);
constexpr auto kLastLook = std::chrono::milliseconds(20);
constexpr std::size_t kLongestText = 1000;

}  // namespace

void Coordinator::Impl::resume(const JobRecord& former) {
  roster.set_size({former.workers, former.servers});
  options.patience = former.patience;
  options.heartbeat = former.heartbeat;
  options.max_workers = former.max_workers;
  tolerates_lost_servers = former.tolerates_lost_servers;
  generation = kFirstGeneration;
  for (const auto& [name, entry] : succession.leadership()->registry())
    registry.restore(name, entry);
  succession.await_members();
  generations.resume(former);
  gathers.begin();
}

void Coordinator::Impl::leave(Participant& one) {
  one.left = true;
  registry.forget(one.peer.id);
}

// A worker that goes before its run is done is missed, however it goes.
void Coordinator::Impl::take_goodbye(Participant& one) {
  leave(one);
  if (is_survivor(one)) generations.end(one);
}

void Coordinator::Impl::lose(Participant& one, const std::string& reason) {
  leave(one);
  if (one.joined && succession.may_return(one)) one.joined = false;
  if (!one.joined) return;
  if (is_survivor(one)) return generations.lose(one, reason);
  if (one.refusal) return;
  const std::string text = fmt::format("rendezvous: {} was lost to the coordinator at {}: {}",
                                       one.title(), to_string(endpoint), reason);
  if (one.join.role == Role::worker || !tolerates_lost_servers)
    fail_over(one, Failure::Type::lost, text);
  gathers.deny(one, text);
}

// Where protocols differ, a job whose member this wants to be could never begin: what it asks
// next says whether it does.
void Coordinator::Impl::receive(Participant& one, const comm::MessageEvent& request,
                                const detail::Hello& hello) {
  if (one.hello) throw Corrupt("a message of kind '{}' out of turn", hello.kKind);
  one.hello = request;
  one.host = hello.host;
  if (hello.protocol == detail::kProtocol) return;
  one.other_protocol = fmt::format(
      "rendezvous: {} speaks version {} of the protocol, the coordinator at {} on {} version {}: "
      "all hosts need the same lockstep",
      one.title(), hello.protocol, to_string(endpoint), own_host_name(), detail::kProtocol);
}

void Coordinator::Impl::take_complaint(const Participant& by, const detail::Missed& missed) {
  if (missed.id < 0 || missed.id >= roster.size().members()) return;
  complaints.push_back({roster.size().id_of(by.join.role, by.known_rank()), missed.id,
                        missed.text.substr(0, kLongestText)});
}

void Coordinator::Impl::receive(Participant& one, const comm::MessageEvent& request,
                                const detail::Join& join) {
  if (!one.hello || one.joining || one.joined)
    throw Corrupt("a message of kind '{}' out of turn", join.kKind);
  one.joining = request;
  one.join = join;
  if (is_complete() && join.is_late && generations.is_active() && !generations.is_over())
    return admit(one);
  if (is_complete())
    return turn_away(one, fmt::format("rendezvous: {}: the job's {} members are all there",
                                      to_string(endpoint), roster.size().members()));
  std::string why = detail::why_unfit(one, roster);
  if (why.empty() && succession.leadership() != nullptr && !join.survives)
    why = "the job has a store (--store), and its program ends with the first worker that is lost";
  if (!why.empty()) refuse(one, why);
  one.joined = true;
}

void Coordinator::Impl::receive(Participant& one, const comm::MessageEvent& request,
                                const detail::Rejoin& rejoin) {
  if (!one.hello || one.joining || one.joined)
    throw Corrupt("a message of kind '{}' out of turn", rejoin.kKind);
  one.given.push_back({request, {}});
  one.join = rejoin.join;
  if (!is_complete() || !succession.readmit(one, rejoin))
    return turn_away(one, "this worker is not in the job any more");
  one.given.clear();
  answer(request, detail::Noted{});
}

void Coordinator::Impl::check_rejoined() {
  if (!succession.is_time_over()) return;
  generations.lose_missing(succession.why_lost());
  for (const std::int64_t id : succession.missing_servers())
    if (!tolerates_lost_servers)
      fail({Failure::Type::lost, Role::server, static_cast<int>(id) - roster.size().workers, "",
            fmt::format("rendezvous: server {} is lost: {}", id - roster.size().workers,
                        succession.why_lost())});
}

// What does not fit is turned away, and the job goes on.
void Coordinator::Impl::admit(Participant& one) {
  for (const Participant* other : generations.workers())
    if (const std::string why = detail::difference(one, *other); !why.empty())
      return turn_away(one, fmt::format("rendezvous at {}: {} does not fit: {}",
                                        to_string(endpoint), one.title(), why));
  if (one.join.configuration.empty())
    one.join.configuration = generations.workers().front()->join.configuration;
  generations.admit(one);
}

void Coordinator::Impl::turn_away(Participant& one, const std::string& text) {
  one.refusal = Failure{Failure::Type::refused, {}, -1, "", text};
  answer_all(one, *one.refusal);
}

void Coordinator::Impl::refuse(const Participant& one, const std::string& why) {
  fail_over(one, Failure::Type::refused,
            fmt::format("rendezvous at {}: {} at {} does not fit: {}", to_string(endpoint),
                        one.title(), to_string(one.peer.from), why));
}

// Because of one of them.
void Coordinator::Impl::fail_over(const Participant& one, Failure::Type type,
                                  const std::string& text) {
  if (type != Failure::Type::refused && one.known_rank() >= 0)
    complaints.push_back({-1, roster.size().id_of(one.join.role, one.known_rank()), text});
  fail({type, one.join.role, one.known_rank(), one.host, text});
}

void Coordinator::Impl::fail(const Failure& failure) {
  record(failure.text);
  over = failure;
  survives_lost_workers = false;
  registry.answer_all(failure);
  for (auto& one : roster.participants()) {
    one->refusal = failure;
    if (!one->left) answer_all(*one, failure);
  }
  collect_final_complaints();
  detail::raise(failure);
}

// Who was missed by whom: members that end because of another one say so.
void Coordinator::Impl::collect_final_complaints() {
  const auto end = Clock::now() + kLinger;
  const auto is_here = [](auto& one) { return !one->left; };
  const auto& all = roster.participants();
  while (std::any_of(all.begin(), all.end(), is_here) && Clock::now() < end &&
         !stop.stop_requested())
    if (const auto event = server->receive(Clock::now() + kLastLook)) take_last(*event);
}

// What is said when the job is over. Who comes late hears why.
void Coordinator::Impl::take_last(const comm::MessageEvent& event) {
  if (event.kind == Kind::connected) {
    add(event.peer);
    roster.participants().back()->refusal = over;
  }
  Participant* one = roster.find(event.peer.id);
  if (one == nullptr) return;
  if (event.kind == Kind::left || event.kind == Kind::lost) one->left = true;
  if (event.kind != Kind::request) return;
  try {
    const Message message = message_of(event);
    const auto* missed = std::get_if<detail::Missed>(&message);
    if (missed != nullptr && one->joined) receive(*one, event, *missed);
    if (missed == nullptr && one->refusal) answer(event, *one->refusal);
  } catch (const Corrupt&) {
    one->left = true;
  }
}

void Coordinator::Impl::welcome() {
  roster.complete();
  generation = kFirstGeneration;
  const std::vector<Participant*> all = roster.members();
  tolerates_lost_servers = std::all_of(all.begin(), all.end(),
                                       [](auto* one) { return one->join.tolerates_lost_servers; });
  const Membership membership = roster.membership(generation);
  if (std::all_of(all.begin(), all.end(), [](auto* one) { return one->join.survives; }))
    generations.begin(membership);
  for (Participant* member : all) {
    answer(*member->joining, detail::Welcome{member->id, membership, {}});
    member->joining.reset();
  }
  gathers.begin();
}

}  // namespace lockstep::cluster
