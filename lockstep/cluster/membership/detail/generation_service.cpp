// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/membership/detail/generation_service.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace lockstep::cluster::detail {
namespace {

constexpr std::size_t kMostEvents = 10'000;

std::string_view name_of(KeeperNote::Kind kind) {
  switch (kind) {
    case KeeperNote::Kind::joined: return "joined";
    case KeeperNote::Kind::lost: return "lost";
    case KeeperNote::Kind::left: return "left";
    case KeeperNote::Kind::waiting: return "waiting";
    case KeeperNote::Kind::resized: return "resized";
    case KeeperNote::Kind::generation: break;
  }
  return "generation";
}

std::int64_t unix_milliseconds() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

KeeperTime GenerationService::now() {
  return std::chrono::duration_cast<KeeperTime>(comm::Clock::now().time_since_epoch());
}

void GenerationService::answer(std::optional<comm::MessageEvent>& request,
                               const Message& message) const {
  calls_.answer(*request, message);
  request.reset();
}

void GenerationService::begin(const Membership& membership) {
  keeper_.begin_with(membership);
  for (const Member& member : membership.members) used_ids_.insert(member.id);
}

void GenerationService::resume(const JobRecord& record) {
  keeper_.resume({.membership = record.membership,
                  .min_workers = record.min_workers,
                  .max_workers = record.max_workers,
                  .leaving = record.leaving,
                  .is_over = record.is_over,
                  .teller = record.teller},
                 now());
  used_ids_.insert(record.used_ids.begin(), record.used_ids.end());
  for (const Member& member : record.membership.members) used_ids_.insert(member.id);
  events_ = record.events;
  is_active_ = true;
  act();
}

JobRecord GenerationService::record() const {
  const KeeperState state = keeper_.state();
  return {.membership = state.membership,
          .min_workers = state.min_workers,
          .max_workers = state.max_workers,
          .used_ids = {used_ids_.begin(), used_ids_.end()},
          .leaving = state.leaving,
          .is_over = state.is_over,
          .teller = state.teller,
          .events = events_};
}

// Where it has come before, and did not hear our answer, it is that one.
bool GenerationService::readmit(Participant& one, const Rejoin& rejoin) {
  const bool is_new = rejoin.generation == 0 && !keeper_.knows(rejoin.id) && !keeper_.is_over();
  if (!is_new && !keeper_.knows(rejoin.id)) return false;
  if (Participant* before = find(rejoin.id)) before->left = true, before->joined = false;
  one.id = rejoin.id;
  one.rank = static_cast<int>(one.id);
  one.joined = true;
  for (const Member& member : keeper_.membership().members)
    if (member.id == one.id) one.host = member.host;
  if (is_new)
    add(one);
  else if (!keeper_.is_candidate(one.id) && !keeper_.is_over())
    one.untold = Change{true, "another member coordinates the job now"};
  return true;
}

std::vector<std::int64_t> GenerationService::missing_workers() const {
  std::vector<std::int64_t> missing;
  if (keeper_.is_over()) return missing;
  for (const Member& member : keeper_.membership().members)
    if (member.role == Role::worker && keeper_.knows(member.id) && find(member.id) == nullptr)
      missing.push_back(member.id);
  return missing;
}

void GenerationService::lose_missing(const std::string& why) {
  for (const std::int64_t id : missing_workers()) keeper_.lose(id, why, now());
  act();
}

Participant* GenerationService::find(std::int64_t id) const {
  for (const auto& one : roster_.participants())
    if (one->joined && one->id == id && id >= 0) return one.get();
  return nullptr;
}

std::vector<Participant*> GenerationService::workers() const {
  std::vector<Participant*> found;
  for (const Member& member : keeper_.membership().members)
    if (Participant* one = member.role == Role::worker ? find(member.id) : nullptr)
      found.push_back(one);
  return found;
}

std::int64_t GenerationService::id_for(const Participant& one) {
  const std::int64_t asked = one.join.rank;
  const std::int64_t next = *used_ids_.rbegin() + 1;
  if (asked >= 0) return used_ids_.contains(asked) ? next : asked;
  const std::int64_t given = calls_.new_id ? calls_.new_id() : next;
  return used_ids_.contains(given) ? next : given;
}

void GenerationService::admit(Participant& one) {
  one.id = id_for(one);
  one.rank = static_cast<int>(one.id);  // by which it is called
  for (const Participant* other : roster_.members())
    if (other->join.machine == one.join.machine) one.host = other->host;
  one.joined = true;
  add(one);
  answer(one.joining, Welcome{one.id, {.members = {{.id = one.id, .host = one.host}}}, events_});
}

// Before it hears its id, which no other coordinator may give to anybody else.
void GenerationService::add(const Participant& one) {
  keeper_.add(one.id, one.host);
  if (used_ids_.insert(one.id).second) calls_.record();
}

void GenerationService::take(Participant& one, const comm::MessageEvent& request,
                             const AwaitChange& await) {
  one.awaits_change = request;
  if (!keeper_.is_current(one.id, await.generation)) one.untold.reset();
  if (one.untold) {
    answer(one.awaits_change, *one.untold);
    one.untold.reset();
  }
  check_active();
}

// Before that, a loss ends the job as it does in one that does not survive any.
void GenerationService::check_active() {
  if (is_active_) return;
  const std::vector<Participant*> all = workers();
  is_active_ = std::all_of(all.begin(), all.end(), [](const Participant* one) {
    return one->awaits_change || one->reported;
  });
  if (!is_active_) return;
  calls_.record();
  for (const Participant* one : all)
    if (one->left) end(*one);  // since it was ready
}

void GenerationService::take(Participant& one, const comm::MessageEvent& request,
                             const Report& report) {
  one.reported = request;
  one.awaits_change.reset();
  one.untold.reset();
  keeper_.report(one.id,
                 {.generation = report.generation,
                  .has_state = report.has_state,
                  .is_finished = report.is_finished,
                  .step = report.step,
                  .missed = report.missed,
                  .why = report.why},
                 now());
  act();
}

void GenerationService::take(const comm::MessageEvent& request, const Depart& depart,
                             std::int64_t sender) {
  act(keeper_.release(depart.id >= 0 ? depart.id : sender, "a worker leaves", now()));
  calls_.answer(request, Noted{});
}

void GenerationService::take(const Participant& one, const comm::MessageEvent& request,
                             const Told& /*told*/) {
  keeper_.tell(one.id, now());
  act();
  calls_.answer(request, Noted{});
}

void GenerationService::take(const comm::MessageEvent& request, const Resize& resize) {
  keeper_.resize(static_cast<int>(std::clamp<std::int64_t>(resize.workers, 1, 1 << 20)), now());
  act();
  calls_.answer(request, Noted{});
}

void GenerationService::take(const comm::MessageEvent& request, const WaitForNobody& /*wish*/) {
  keeper_.wait_for_nobody(now());
  act(true);
  calls_.answer(request, Noted{});
}

void GenerationService::take(const comm::MessageEvent& request, const Expel& expel) {
  if (keeper_.is_current(expel.id, expel.generation)) keeper_.lose(expel.id, expel.why, now());
  act();
  calls_.answer(request, Noted{});
}

// The last one has what the others would need.
std::string GenerationService::why_needed(std::int64_t id) const {
  const Membership& now = keeper_.membership();
  if (!keeper_.knows(id)) {
    std::string ids;
    for (const Member& member : now.members)
      if (member.role == Role::worker)
        ids += fmt::format("{}{}", ids.empty() ? "" : ", ", member.id);
    return fmt::format("there is no worker {}; there are {}", id, ids);
  }
  const bool is_only = now.count(Role::worker) == 1 && now.members[0].id == id;
  return is_only ? fmt::format("worker {} is the only one: the job has to be stopped", id) : "";
}

void GenerationService::lose(Participant& one, const std::string& why) {
  keeper_.lose(one.id, why, now());
  act();
}

void GenerationService::end(const Participant& one) {
  keeper_.end(one.id, now());
  act();
}

bool GenerationService::release(std::int64_t id, const std::string& why) {
  if (is_over()) return true;
  if (!is_active_ || !why_needed(id).empty()) return false;
  act(keeper_.release(id, why, now()));
  return true;
}

void GenerationService::tick() {
  keeper_.tick(now());
  act();
}

// What people read is kept too, and told when it is. That the run is over is kept even where nobody
// is left to be told, and so is any other news of which nobody is told.
void GenerationService::act(bool has_news) {
  calls_.changed();
  const std::vector<KeeperAction> actions = keeper_.take_actions();
  const bool ends = is_over() && !std::exchange(is_end_kept_, true);
  if (actions.empty() && !ends && !has_news) return;
  const std::int64_t told = events_.empty() ? 0 : events_.back().number;
  for (const KeeperAction& action : actions)
    if (const auto* one = std::get_if<KeeperNote>(&action)) note(*one);
  if (is_active_) calls_.record();
  for (const MembershipEvent& event : events_)
    if (event.number > told) calls_.tell(event);
  for (const KeeperAction& action : actions)
    std::visit([this](const auto& one) { perform(one); }, action);
}

void GenerationService::perform(const Interrupt& interrupt) {
  Participant* one = find(interrupt.id);
  if (one == nullptr || one->left) return;
  if (interrupt.is_urgent) deny_gathers(interrupt.why);
  const Change change{interrupt.is_urgent, interrupt.why};
  if (one->awaits_change)
    answer(one->awaits_change, change);
  else
    one->untold = change;
}

// Of a generation that will never be whole.
void GenerationService::deny_gathers(const std::string& why) const {
  const Denied denied{Denied::Type::lost, Role::worker, -1, "",
                      "rendezvous: the generation is over: " + why};
  for (Participant* one : workers()) {
    one->gather_deadline = comm::Deadline::max();
    for (const Participant::Gift& gift : std::exchange(one->given, {}))
      if (!one->left) calls_.answer(gift.request, denied);
  }
}

void GenerationService::perform(const Begin& begin) {
  for (const Member& member : begin.membership.members) {
    Participant* one = find(member.id);
    if (one == nullptr || !one->reported) continue;
    one->given.clear();
    one->untold.reset();
    answer(one->reported, Welcome{one->id, begin.membership, events_});
  }
}

void GenerationService::perform(const Dismiss& dismiss) {
  Participant* one = find(dismiss.id);
  if (one == nullptr) return;
  if (dismiss.kind == Dismiss::Kind::expelled)
    return calls_.fence(*one, {Failure::Type::refused, Role::worker, one->rank, one->host,
                               "this worker is not in the job any more: " + dismiss.why});
  const Dismissed dismissed{dismiss.kind == Dismiss::Kind::finished, dismiss.why};
  if (one->reported) answer(one->reported, dismissed);
}

void GenerationService::note(const KeeperNote& note) {
  MembershipEvent event;
  event.number = events_.empty() ? 1 : events_.back().number + 1;
  event.unix_ms = unix_milliseconds();
  event.kind = name_of(note.kind);
  event.member = note.id;
  if (const Participant* one = find(note.id)) {
    event.host = one->host;
    if (note.kind == KeeperNote::Kind::lost && !one->left) event.kind = "expelled";
  }
  event.why = note.why;
  event.generation = note.generation;
  event.step = note.step;
  event.workers = note.workers;
  event.milliseconds = note.took.count();
  if (events_.size() == kMostEvents) events_.erase(events_.begin());
  events_.push_back(event);
}

}  // namespace lockstep::cluster::detail
