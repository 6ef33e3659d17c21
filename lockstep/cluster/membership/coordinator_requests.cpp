// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <utility>

#include "lockstep/cluster/membership/detail/coordinator_impl.h"

namespace lockstep::cluster {
namespace {

using comm::Clock;
using detail::Message;

}  // namespace

void Coordinator::Impl::answer(const comm::MessageEvent& request, const Message& message) {
  server->reply(request, comm::Payload(detail::encode(message)));
}

// All that it has asked so far.
void Coordinator::Impl::answer_all(Participant& one, const Failure& failure) {
  if (one.hello) answer(*std::exchange(one.hello, {}), failure);
  if (one.joining) answer(*std::exchange(one.joining, {}), failure);
  if (one.awaits_leave) answer(*std::exchange(one.awaits_leave, {}), failure);
  if (one.awaits_change) answer(*std::exchange(one.awaits_change, {}), failure);
  if (one.reported) answer(*std::exchange(one.reported, {}), failure);
  for (const Participant::Gift& gift : std::exchange(one.given, {})) answer(gift.request, failure);
}

Message Coordinator::Impl::message_of(const comm::MessageEvent& request) {
  return detail::decode(request.payload.parts() == 0 ? "" : request.payload.text());
}

// In whatever version of the protocol: its first byte is its kind.
bool Coordinator::Impl::is_join(const comm::MessageEvent& request) {
  const std::string text = request.payload.parts() == 0 ? "" : request.payload.text();
  return !text.empty() && text[0] == detail::Join::kKind;
}

// The job cannot begin without a member; anybody else is turned away.
void Coordinator::Impl::refuse_or_turn_away(Participant& one, const comm::MessageEvent& request,
                                            const std::string& text) {
  one.given.push_back({request, {}});  // so that it is answered with all else that it has asked
  if (one.joined || (is_join(request) && !is_complete()))
    fail_over(one, Failure::Type::refused, text);
  turn_away(one, text);
}

// Requests that wait for their answer are kept without their bytes.
void Coordinator::Impl::serve(Participant& one, const comm::MessageEvent& event) {
  if (one.refusal) return answer(event, *one.refusal);
  if (!one.other_protocol.empty()) return refuse_or_turn_away(one, event, one.other_protocol);
  try {
    comm::MessageEvent request = event;
    const Message message = message_of(request);
    request.payload = {};
    std::visit([&](const auto& said) { receive(one, request, said); }, message);
  } catch (const Corrupt& error) {
    refuse_or_turn_away(one, event, fmt::format("rendezvous: {}: {}", one.title(), error.what()));
  }
}

void Coordinator::Impl::receive(Participant& one, const comm::MessageEvent& request,
                                const detail::MembershipQuery&) {
  if (!one.hello) throw Corrupt("a question before a greeting");
  const Membership& now = generations.membership();
  answer(request,
         detail::MembershipReply{generations.has_begun() ? now : roster.membership(generation),
                                 roster.absent()});
}

void Coordinator::Impl::receive(Participant& one, const comm::MessageEvent& request,
                                const detail::Gather& gather) {
  check_joined(one, gather.kKind);
  gathers.take(one, request, gather);
}

void Coordinator::Impl::receive(Participant& one, const comm::MessageEvent& request,
                                const detail::AwaitLeave& wait) {
  check_joined(one, wait.kKind);
  if (one.awaits_leave) throw Corrupt("a message of kind '{}' out of turn", wait.kKind);
  one.awaits_leave = request;
  check_leave();
}

void Coordinator::Impl::check_leave() {
  if (!is_complete() || succession.awaits_members() || !roster.have_workers_left()) return;
  for (Participant* one : roster.members())
    if (one->awaits_leave && !one->left)
      answer(*std::exchange(one->awaits_leave, {}), detail::AllLeft{});
}

void Coordinator::Impl::receive(Participant& one, const comm::MessageEvent& request,
                                const detail::Missed& missed) {
  check_joined(one, missed.kKind);
  take_complaint(one, missed);
  answer(request, detail::Noted{});
}

// Whoever is the first worker tells others what all have said.
void Coordinator::Impl::receive(Participant& one, const comm::MessageEvent& request,
                                const detail::Activity& activity) {
  check_joined(one, activity.kKind);
  one.report = activity.text;
  one.reported_at = Clock::now();
  answer(request, detail::Activities{roster.reports(Clock::now())});
}

void Coordinator::Impl::receive(Participant& one, const comm::MessageEvent& request,
                                const detail::Put& put) {
  check_joined(one, put.kKind);
  registry.take(request, put);
}

void Coordinator::Impl::receive(Participant& one, const comm::MessageEvent& request,
                                const detail::CompareAndSet& compare) {
  check_joined(one, compare.kKind);
  registry.take(request, compare);
}

void Coordinator::Impl::receive(Participant& one, const comm::MessageEvent& request,
                                const detail::Get& get) {
  check_joined(one, get.kKind);
  registry.take(request, get);
}

void Coordinator::Impl::receive(Participant& one, const comm::MessageEvent& request,
                                const detail::AwaitChange& await) {
  check_survives(one, await.kKind);
  generations.take(one, request, await);
}

void Coordinator::Impl::receive(Participant& one, const comm::MessageEvent& request,
                                const detail::Report& report) {
  check_survives(one, report.kKind);
  generations.take(one, request, report);
}

void Coordinator::Impl::receive(Participant& one, const comm::MessageEvent& request,
                                const detail::Depart& depart) {
  if (depart.id < 0) {
    check_survives(one, depart.kKind);
    return generations.take(request, depart, one.id);
  }
  check_greeted(one, depart.kKind);
  std::string why = why_fixed();
  if (why.empty()) why = generations.why_needed(depart.id);
  if (why.empty() && depart.id == options.own_worker)
    why = fmt::format("worker {} coordinates the job; lockstep stop ends it with a checkpoint",
                      depart.id);
  why.empty() ? generations.take(request, depart, one.id) : deny(request, "leave: " + why);
}

void Coordinator::Impl::receive(Participant& one, const comm::MessageEvent& request,
                                const detail::Told& told) {
  check_survives(one, told.kKind);
  generations.take(one, request, told);
}

void Coordinator::Impl::receive(Participant& one, const comm::MessageEvent& request,
                                const detail::Resize& resize) {
  check_greeted(one, resize.kKind);
  std::string why = why_fixed();
  if (why.empty() && (resize.workers < 1 || resize.workers > options.max_workers))
    why = fmt::format("{} workers, expected 1 to {} (--max-workers, and a shard for each)",
                      resize.workers, options.max_workers);
  why.empty() ? generations.take(request, resize) : deny(request, "scale: " + why);
}

void Coordinator::Impl::receive(Participant& one, const comm::MessageEvent& request,
                                const detail::WaitForNobody& wish) {
  check_survives(one, wish.kKind);
  generations.take(request, wish);
}

void Coordinator::Impl::receive(Participant& one, const comm::MessageEvent& request,
                                const detail::Expel& expel) {
  check_survives(one, expel.kKind);
  generations.take(request, expel);
}

void Coordinator::Impl::deny(const comm::MessageEvent& request, const std::string& why) {
  answer(request, detail::Denied{detail::Denied::Type::invalid, Role::worker, -1, "", why});
}

// Why the workers cannot be changed; empty: they can.
std::string Coordinator::Impl::why_fixed() const {
  if (is_complete() && !generations.has_begun())
    return "the workers of this job are fixed: it ends with the first that is lost (--fail-fast, "
           "--shard-state, --pipeline)";
  if (!generations.is_active()) return "the job has not begun its first step";
  return generations.is_over() ? "the run is done" : "";
}

void Coordinator::Impl::check_greeted(const Participant& one, char kind) {
  if (!one.hello) throw Corrupt("a message of kind '{}' out of turn", kind);
}

void Coordinator::Impl::check_survives(const Participant& one, char kind) const {
  if (!generations.has_begun() || !one.hello || !one.joined)
    throw Corrupt("a message of kind '{}' out of turn", kind);
}

void Coordinator::Impl::check_joined(const Participant& one, char kind) {
  if (!one.joined) throw Corrupt("a message of kind '{}' out of turn", kind);
}

}  // namespace lockstep::cluster
