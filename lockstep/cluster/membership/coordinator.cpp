// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/membership/coordinator.h"

#include <algorithm>
#include <utility>

#include "lockstep/cluster/membership/detail/coordinator_impl.h"
#include "lockstep/cluster/membership/detail/coordinator_server.h"

namespace lockstep::cluster {
namespace {

using comm::Clock;
using detail::Failure;
using detail::Message;
using detail::Participant;
using Kind = comm::MessageEvent::Kind;

constexpr auto kLook = std::chrono::milliseconds(100);
constexpr int kEventsInTurn = 256;  // before deadlines are looked at again

double seconds(std::chrono::milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

Coordinator::Impl::Impl(const CoordinatorOptions& given)
    : options(given),
      server(detail::server_options(given)),
      endpoint(server->endpoint()),
      deadline(Clock::now() + given.timeout),
      roster({given.workers, given.servers}),
      registry(
          roster,
          [this](const comm::MessageEvent& request, const Message& message) {
            answer(request, message);
          },
          [this](const std::string& name, const RegistryEntry& entry) {
            succession.record(name, entry);
          }),
      generations(roster, {given.min_workers, given.max_workers, given.patience},
                  generation_calls()),
      gathers(roster, generations, endpoint, gather_calls()),
      succession(options, roster, generations) {}

detail::GatherService::Calls Coordinator::Impl::gather_calls() {
  return {[this](const comm::MessageEvent& request, const comm::Payload& reply) {
            server->reply(request, reply);
          },
          [this](const Failure& failure) { fail(failure); },
          [this](Participant& missing, const std::string& text) {
            if (is_survivor(missing)) return generations.lose(missing, text);
            fail_over(missing, Failure::Type::timeout, text);
          }};
}

detail::GenerationService::Calls Coordinator::Impl::generation_calls() {
  return {[this](const comm::MessageEvent& request, const Message& message) {
            answer(request, message);
          },
          [this](Participant& one, const Failure& failure) {
            one.refusal = failure;
            if (!one.left) answer_all(one, failure);
          },
          [this](const MembershipEvent& event) {
            if (options.on_event) options.on_event(event);
          },
          [this] { note_survival(); },
          [this] { record(); },
          [this](const std::string& why) {
            fail({Failure::Type::lost, Role::worker, -1, endpoint.host, "membership: " + why});
          },
          options.new_id};
}

void Coordinator::Impl::record(const std::string& failure) const {
  succession.record(tolerates_lost_servers, failure);
}

void Coordinator::Impl::log_refusals() {
  for (const std::string& line : server->refusals().take_new())
    if (options.log) options.log("a connection was refused: " + line);
}

void Coordinator::Impl::log_refusal_count() {
  const comm::RefusalLog& refusals = server->refusals();
  if (options.log && refusals.count() > 1)
    options.log(fmt::format("{} connections were refused: {}", refusals.count(),
                            refusals.counts_by_host()));
}

void Coordinator::Impl::take_events() {
  const auto soon = Clock::now() + kLook;
  auto until = is_complete() ? soon : std::min<comm::Deadline>(soon, deadline);
  for (int i = 0; i < kEventsInTurn; ++i, until = {}) {
    const auto event = server->receive(until);
    if (!event) return;
    take(*event);
  }
}

void Coordinator::Impl::take(const comm::MessageEvent& event) {
  if (event.kind == Kind::connected) return add(event.peer);
  Participant* one = roster.find(event.peer.id);
  if (one == nullptr) return;
  switch (event.kind) {
    case Kind::connected: return;
    case Kind::request: return serve(*one, event);
    case Kind::left: return take_goodbye(*one);
    case Kind::lost: return lose(*one, event.reason);
    case Kind::silent:
      one->is_late = true;
      one->late_since = Clock::now();
      return;
    case Kind::heard: one->is_late = false; return;
  }
}

void Coordinator::Impl::add(const comm::MessagePeer& peer) {
  roster.participants().push_back(std::make_unique<Participant>(Participant{peer}));
}

// Whether the job goes on without it.
bool Coordinator::Impl::is_survivor(const Participant& one) const {
  return one.joined && one.join.role == Role::worker && generations.is_active();
}

// One that was silent for the whole of its time, while we listened.
void Coordinator::Impl::check_survivors() {
  if (!generations.is_active()) return;
  for (const auto& one : roster.participants())
    if (is_survivor(*one) && one->is_late && !one->left && !one->refusal &&
        Clock::now() > one->late_since + last_chance())
      generations.lose(
          *one, fmt::format("nothing was heard from it for {:.1f} s", seconds(options.heartbeat)));
  generations.tick();
}

// A connection may outlive its process where another one has it open.
void Coordinator::Impl::lose_ended() {
  // One that has not come yet, or that the job cannot do without, leaves later.
  for (const std::int64_t id : ended.take_released())
    if (!generations.release(id, "its host leaves")) ended.release(id);
  for (const std::int64_t id : ended.take_due())
    for (const auto& one : roster.participants())
      if (one->id == id && !one->left && is_survivor(*one)) {
        generations.lose(*one, "its process has ended");
        break;
      }
}

void Coordinator::Impl::note_survival() {
  survives_lost_workers = generations.is_active() && !generations.is_over();
  if (survives_lost_workers) has_survived = true;
  is_run_done = generations.is_run_done();
  if (generations.has_begun()) first_worker = generations.membership().members.at(0).id;
}

void Coordinator::Impl::check_deadlines() {
  registry.check_waiting();
  if (is_complete()) return gathers.check_deadlines();
  if (Clock::now() < deadline) return;
  std::string text =
      fmt::format("rendezvous at {}: {} of {} members joined within {:.1f} s", to_string(endpoint),
                  roster.count_joined(), roster.size().members(), seconds(options.timeout));
  text += roster.who_is_there();
  for (const std::string& refusal : server->refusals().last()) text += "; turned away: " + refusal;
  const std::vector<std::int64_t> missing = roster.missing();
  if (!missing.empty()) complaints.push_back({-1, missing[0], text});
  const bool is_worker = !missing.empty() && missing[0] < roster.size().workers;
  fail({Failure::Type::timeout, Role::worker, is_worker ? static_cast<int>(missing[0]) : -1,
        endpoint.host, text});
}

// Those of earlier generations.
bool Coordinator::Impl::is_forgotten(const Participant& one) const {
  if (!generations.is_active() || one.id < roster.size().members()) return false;
  const auto now = generations.workers();
  return std::find(now.begin(), now.end(), &one) == now.end();
}

bool Coordinator::Impl::all_left() const {
  const std::vector<Participant*> all = roster.members();
  return is_complete() && !succession.awaits_members() &&
         std::all_of(all.begin(), all.end(), [](const auto* one) { return one->left; });
}

void Coordinator::Impl::turn() {
  succession.check_valid(endpoint);
  take_events();
  log_refusals();
  std::erase_if(roster.participants(),
                [this](auto& one) { return one->left && (!one->joined || is_forgotten(*one)); });
  if (!is_complete() && roster.count_joined() == roster.size().members()) welcome();
  lose_ended();
  check_leave();
  check_deadlines();
  check_survivors();
  check_rejoined();
  note_survival();
}

// However it ends: who looks for the next coordinator must not wait for the end of our lease.
void Coordinator::Impl::close() {
  succession.take(nullptr);
  log_refusals();
  log_refusal_count();
  server.reset();
}

void Coordinator::Impl::note_late_members() {
  for (const Participant* one : roster.members())
    if (!one->left && one->is_late)
      complaints.push_back({-1, one->id,
                            fmt::format("nothing was heard from {} for {:.1f} s", one->title(),
                                        seconds(options.heartbeat))});
}

Coordinator::Coordinator(const CoordinatorOptions& options) {
  if (options.secret.empty())
    throw InvalidArgument("rendezvous: the job has no secret; expected one for every job");
  if (options.workers < 1)
    throw InvalidArgument("rendezvous: {} members, expected at least 1", options.workers);
  if (options.servers < 0)
    throw InvalidArgument("rendezvous: {} servers, expected 0 or more", options.servers);
  impl_ = std::make_unique<Impl>(options);
}

Coordinator::~Coordinator() = default;

comm::Endpoint Coordinator::endpoint() const { return impl_->endpoint; }

void Coordinator::lead(std::unique_ptr<Leadership> leadership) {
  impl_->succession.take(std::move(leadership));
  if (const auto& former = impl_->succession.leadership()->former()) impl_->resume(*former);
}

// What was said last may be there while we are asked to stop.
void Coordinator::run(const std::stop_token& stop) {
  impl_->stop = stop;
  try {
    while (!impl_->all_left() && !stop.stop_requested()) impl_->turn();
    impl_->survives_lost_workers = false;
    while (const auto event = impl_->server->receive({})) impl_->take_last(*event);
    impl_->note_late_members();
  } catch (...) {
    impl_->close();
    throw;
  }
  impl_->close();
}

bool Coordinator::tolerates_lost_servers() const { return impl_->tolerates_lost_servers; }
bool Coordinator::survives_lost_workers() const { return impl_->survives_lost_workers; }
bool Coordinator::has_survived() const { return impl_->has_survived; }
bool Coordinator::is_run_done() const { return impl_->is_run_done; }
void Coordinator::note_ended(std::int64_t id) { impl_->ended.add(id); }
void Coordinator::release(std::int64_t id) { impl_->ended.release(id); }
void Coordinator::keep(std::int64_t id) { impl_->ended.keep(id); }
std::int64_t Coordinator::first_worker() const { return impl_->first_worker; }

std::vector<Complaint> Coordinator::complaints() const { return impl_->complaints; }

}  // namespace lockstep::cluster
