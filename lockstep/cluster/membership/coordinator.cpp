// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/membership/coordinator.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "lockstep/base/host_name.h"
#include "lockstep/cluster/membership/detail/coordinator_server.h"
#include "lockstep/cluster/membership/detail/ended_processes.h"
#include "lockstep/cluster/membership/detail/gather_service.h"
#include "lockstep/cluster/membership/detail/generation_service.h"
#include "lockstep/cluster/membership/detail/join_check.h"
#include "lockstep/cluster/membership/detail/registry_service.h"
#include "lockstep/cluster/membership/detail/roster.h"
#include "lockstep/cluster/membership/detail/succession.h"

namespace lockstep::cluster {
namespace {

using comm::Clock;
using detail::Failure;
using detail::Message;
using detail::Participant;
using Kind = comm::MessageEvent::Kind;

constexpr auto kLinger = std::chrono::seconds(2);
constexpr auto kLook = std::chrono::milliseconds(100), kLastLook = std::chrono::milliseconds(20);
constexpr int kEventsInTurn = 256;  // before deadlines are looked at again
constexpr std::size_t kLongestText = 1000;
constexpr std::int64_t kFirstGeneration = 1;

double seconds(std::chrono::milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

struct Coordinator::Impl {
  CoordinatorOptions options;
  std::optional<comm::MessageServer> server;  // until run() is over
  comm::Endpoint endpoint;
  comm::Deadline deadline;
  detail::Roster roster;
  detail::RegistryService registry;
  std::vector<Complaint> complaints = {};
  std::int64_t generation = 0;  // until all have joined
  detail::GenerationService generations;
  detail::GatherService gathers;
  std::atomic<bool> tolerates_lost_servers = false, survives_lost_workers = false,
                    has_survived = false, is_run_done = false;
  std::atomic<std::int64_t> first_worker = 0;
  std::optional<Failure> over = {};
  detail::EndedProcesses ended = {};
  detail::Succession succession;
  std::stop_token stop = {};

  explicit Impl(const CoordinatorOptions& given)
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

  detail::GatherService::Calls gather_calls() {
    return {[this](const comm::MessageEvent& request, const comm::Payload& reply) {
              server->reply(request, reply);
            },
            [this](const Failure& failure) { fail(failure); },
            [this](Participant& missing, const std::string& text) {
              if (is_survivor(missing)) return generations.lose(missing, text);
              fail_over(missing, Failure::Type::timeout, text);
            }};
  }

  detail::GenerationService::Calls generation_calls() {
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

  bool is_complete() const { return generation > 0; }

  void record(const std::string& failure = "") const {
    succession.record(tolerates_lost_servers, failure);
  }

  void resume(const JobRecord& former) {
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

  void log_refusals() {
    for (const std::string& line : server->refusals().take_new())
      if (options.log) options.log("a connection was refused: " + line);
  }

  void log_refusal_count() {
    const comm::RefusalLog& refusals = server->refusals();
    if (options.log && refusals.count() > 1)
      options.log(fmt::format("{} connections were refused: {}", refusals.count(),
                              refusals.counts_by_host()));
  }

  void answer(const comm::MessageEvent& request, const Message& message) {
    server->reply(request, comm::Payload(detail::encode(message)));
  }

  // All that it has asked so far.
  void answer_all(Participant& one, const Failure& failure) {
    if (one.hello) answer(*std::exchange(one.hello, {}), failure);
    if (one.joining) answer(*std::exchange(one.joining, {}), failure);
    if (one.awaits_leave) answer(*std::exchange(one.awaits_leave, {}), failure);
    if (one.awaits_change) answer(*std::exchange(one.awaits_change, {}), failure);
    if (one.reported) answer(*std::exchange(one.reported, {}), failure);
    for (const Participant::Gift& gift : std::exchange(one.given, {}))
      answer(gift.request, failure);
  }

  static Message message_of(const comm::MessageEvent& request) {
    return detail::decode(request.payload.parts() == 0 ? "" : request.payload.text());
  }

  void take_events() {
    const auto soon = Clock::now() + kLook;
    auto until = is_complete() ? soon : std::min<comm::Deadline>(soon, deadline);
    for (int i = 0; i < kEventsInTurn; ++i, until = {}) {
      const auto event = server->receive(until);
      if (!event) return;
      take(*event);
    }
  }

  void take(const comm::MessageEvent& event) {
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

  void add(const comm::MessagePeer& peer) {
    roster.participants().push_back(std::make_unique<Participant>(Participant{peer}));
  }

  void leave(Participant& one) {
    one.left = true;
    registry.forget(one.peer.id);
  }

  // A worker that goes before its run is done is missed, however it goes.
  void take_goodbye(Participant& one) {
    leave(one);
    if (is_survivor(one)) generations.end(one);
  }

  // Whether the job goes on without it.
  bool is_survivor(const Participant& one) const {
    return one.joined && one.join.role == Role::worker && generations.is_active();
  }

  void lose(Participant& one, const std::string& reason) {
    leave(one);
    if (!one.joined) return;
    if (is_survivor(one)) return generations.lose(one, reason);
    if (one.refusal) return;
    const std::string text = fmt::format("rendezvous: {} was lost to the coordinator at {}: {}",
                                         one.title(), to_string(endpoint), reason);
    if (one.join.role == Role::worker || !tolerates_lost_servers)
      fail_over(one, Failure::Type::lost, text);
    gathers.deny(one, text);
  }

  // In whatever version of the protocol: its first byte is its kind.
  static bool is_join(const comm::MessageEvent& request) {
    const std::string text = request.payload.parts() == 0 ? "" : request.payload.text();
    return !text.empty() && text[0] == detail::Join::kKind;
  }

  // The job cannot begin without a member; anybody else is turned away.
  void refuse_or_turn_away(Participant& one, const comm::MessageEvent& request,
                           const std::string& text) {
    one.given.push_back({request, {}});  // so that it is answered with all else that it has asked
    if (one.joined || (is_join(request) && !is_complete()))
      fail_over(one, Failure::Type::refused, text);
    turn_away(one, text);
  }

  // Requests that wait for their answer are kept without their bytes.
  void serve(Participant& one, const comm::MessageEvent& event) {
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

  template <class T>
  void receive(Participant& /*one*/, const comm::MessageEvent& /*request*/, const T& said) {
    throw Corrupt("a message of kind '{}' out of turn", said.kKind);
  }

  // Where protocols differ, a job whose member this wants to be could never begin: what it asks
  // next says whether it does.
  void receive(Participant& one, const comm::MessageEvent& request, const detail::Hello& hello) {
    if (one.hello) throw Corrupt("a message of kind '{}' out of turn", hello.kKind);
    one.hello = request;
    one.host = hello.host;
    if (hello.protocol == detail::kProtocol) return;
    one.other_protocol = fmt::format(
        "rendezvous: {} speaks version {} of the protocol, the coordinator at {} on {} version {}: "
        "all hosts need the same lockstep",
        one.title(), hello.protocol, to_string(endpoint), own_host_name(), detail::kProtocol);
  }

  void receive(Participant& one, const comm::MessageEvent& request,
               const detail::MembershipQuery&) {
    if (!one.hello) throw Corrupt("a question before a greeting");
    const Membership& now = generations.membership();
    answer(request,
           detail::MembershipReply{generations.has_begun() ? now : roster.membership(generation),
                                   roster.absent()});
  }

  void receive(Participant& one, const comm::MessageEvent& request, const detail::Gather& gather) {
    check_joined(one, gather.kKind);
    gathers.take(one, request, gather);
  }

  void receive(Participant& one, const comm::MessageEvent& request,
               const detail::AwaitLeave& wait) {
    check_joined(one, wait.kKind);
    if (one.awaits_leave) throw Corrupt("a message of kind '{}' out of turn", wait.kKind);
    one.awaits_leave = request;
    check_leave();
  }

  void check_leave() {
    if (!is_complete() || succession.awaits_members() || !roster.have_workers_left()) return;
    for (Participant* one : roster.members())
      if (one->awaits_leave && !one->left)
        answer(*std::exchange(one->awaits_leave, {}), detail::AllLeft{});
  }

  void receive(Participant& one, const comm::MessageEvent& request, const detail::Missed& missed) {
    check_joined(one, missed.kKind);
    take_complaint(one, missed);
    answer(request, detail::Noted{});
  }

  // Whoever is the first worker tells others what all have said.
  void receive(Participant& one, const comm::MessageEvent& request,
               const detail::Activity& activity) {
    check_joined(one, activity.kKind);
    one.report = activity.text;
    one.reported_at = Clock::now();
    answer(request, detail::Activities{roster.reports(Clock::now())});
  }

  void receive(Participant& one, const comm::MessageEvent& request, const detail::Put& put) {
    check_joined(one, put.kKind);
    registry.take(request, put);
  }

  void receive(Participant& one, const comm::MessageEvent& request,
               const detail::CompareAndSet& compare) {
    check_joined(one, compare.kKind);
    registry.take(request, compare);
  }

  void receive(Participant& one, const comm::MessageEvent& request, const detail::Get& get) {
    check_joined(one, get.kKind);
    registry.take(request, get);
  }

  void receive(Participant& one, const comm::MessageEvent& request,
               const detail::AwaitChange& await) {
    check_survives(one, await.kKind);
    generations.take(one, request, await);
  }

  void receive(Participant& one, const comm::MessageEvent& request, const detail::Report& report) {
    check_survives(one, report.kKind);
    generations.take(one, request, report);
  }

  void receive(Participant& one, const comm::MessageEvent& request, const detail::Depart& depart) {
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

  void receive(Participant& one, const comm::MessageEvent& request, const detail::Told& told) {
    check_survives(one, told.kKind);
    generations.take(one, request, told);
  }

  void receive(Participant& one, const comm::MessageEvent& request, const detail::Resize& resize) {
    check_greeted(one, resize.kKind);
    std::string why = why_fixed();
    if (why.empty() && (resize.workers < 1 || resize.workers > options.max_workers))
      why = fmt::format("{} workers, expected 1 to {} (--max-workers, and a shard for each)",
                        resize.workers, options.max_workers);
    why.empty() ? generations.take(request, resize) : deny(request, "scale: " + why);
  }

  void receive(Participant& one, const comm::MessageEvent& request, const detail::Expel& expel) {
    check_survives(one, expel.kKind);
    generations.take(request, expel);
  }

  void deny(const comm::MessageEvent& request, const std::string& why) {
    answer(request, detail::Denied{detail::Denied::Type::invalid, Role::worker, -1, "", why});
  }

  // Why the workers cannot be changed; empty: they can.
  std::string why_fixed() const {
    if (is_complete() && !generations.has_begun())
      return "the workers of this job are fixed: it ends with the first that is lost (--fail-fast, "
             "--shard-state, --pipeline)";
    if (!generations.is_active()) return "the job has not begun its first step";
    return generations.is_over() ? "the run is done" : "";
  }

  static void check_greeted(const Participant& one, char kind) {
    if (!one.hello) throw Corrupt("a message of kind '{}' out of turn", kind);
  }

  void check_survives(const Participant& one, char kind) const {
    if (!generations.has_begun() || !one.hello || !one.joined)
      throw Corrupt("a message of kind '{}' out of turn", kind);
  }

  static void check_joined(const Participant& one, char kind) {
    if (!one.joined) throw Corrupt("a message of kind '{}' out of turn", kind);
  }

  void take_complaint(const Participant& by, const detail::Missed& missed) {
    if (missed.id < 0 || missed.id >= roster.size().members()) return;
    complaints.push_back({roster.size().id_of(by.join.role, by.known_rank()), missed.id,
                          missed.text.substr(0, kLongestText)});
  }

  void receive(Participant& one, const comm::MessageEvent& request, const detail::Join& join) {
    if (!one.hello || one.joining || one.joined)
      throw Corrupt("a message of kind '{}' out of turn", join.kKind);
    one.joining = request;
    one.join = join;
    if (is_complete() && join.is_late && generations.is_active() && !generations.is_over())
      return admit(one);
    if (is_complete())
      return turn_away(one, fmt::format("rendezvous: {}: the job's {} members are all there",
                                        to_string(endpoint), roster.size().members()));
    if (const std::string why = detail::why_unfit(one, roster); !why.empty()) refuse(one, why);
    one.joined = true;
  }

  void receive(Participant& one, const comm::MessageEvent& request, const detail::Rejoin& rejoin) {
    if (!one.hello || one.joining || one.joined)
      throw Corrupt("a message of kind '{}' out of turn", rejoin.kKind);
    one.given.push_back({request, {}});
    one.join = rejoin.join;
    if (!is_complete() || !succession.readmit(one, rejoin))
      return turn_away(one, "this worker is not in the job any more");
    one.given.clear();
    answer(request, detail::Noted{});
  }

  void check_rejoined() {
    if (!succession.is_time_over()) return;
    generations.lose_missing(succession.why_lost());
    for (const std::int64_t id : succession.missing_servers())
      if (!tolerates_lost_servers)
        fail({Failure::Type::lost, Role::server, static_cast<int>(id) - roster.size().workers, "",
              fmt::format("rendezvous: server {} is lost: {}", id - roster.size().workers,
                          succession.why_lost())});
  }

  // What does not fit is turned away, and the job goes on.
  void admit(Participant& one) {
    for (const Participant* other : generations.workers())
      if (const std::string why = detail::difference(one, *other); !why.empty())
        return turn_away(one, fmt::format("rendezvous at {}: {} does not fit: {}",
                                          to_string(endpoint), one.title(), why));
    if (one.join.configuration.empty())
      one.join.configuration = generations.workers().front()->join.configuration;
    generations.admit(one);
  }

  void turn_away(Participant& one, const std::string& text) {
    one.refusal = Failure{Failure::Type::refused, {}, -1, "", text};
    answer_all(one, *one.refusal);
  }

  [[noreturn]] void refuse(const Participant& one, const std::string& why) {
    fail_over(one, Failure::Type::refused,
              fmt::format("rendezvous at {}: {} at {} does not fit: {}", to_string(endpoint),
                          one.title(), to_string(one.peer.from), why));
  }

  // Because of one of them.
  [[noreturn]] void fail_over(const Participant& one, Failure::Type type, const std::string& text) {
    if (type != Failure::Type::refused && one.known_rank() >= 0)
      complaints.push_back({-1, roster.size().id_of(one.join.role, one.known_rank()), text});
    fail({type, one.join.role, one.known_rank(), one.host, text});
  }

  [[noreturn]] void fail(const Failure& failure) {
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
  void collect_final_complaints() {
    const auto end = Clock::now() + kLinger;
    const auto is_here = [](auto& one) { return !one->left; };
    const auto& all = roster.participants();
    while (std::any_of(all.begin(), all.end(), is_here) && Clock::now() < end &&
           !stop.stop_requested())
      if (const auto event = server->receive(Clock::now() + kLastLook)) take_last(*event);
  }

  // What is said when the job is over. Who comes late hears why.
  void take_last(const comm::MessageEvent& event) {
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

  void welcome() {
    roster.complete();
    generation = kFirstGeneration;
    const std::vector<Participant*> all = roster.members();
    tolerates_lost_servers = std::all_of(
        all.begin(), all.end(), [](auto* one) { return one->join.tolerates_lost_servers; });
    const Membership membership = roster.membership(generation);
    if (std::all_of(all.begin(), all.end(), [](auto* one) { return one->join.survives; }))
      generations.begin(membership);
    for (Participant* member : all)
      answer(*std::exchange(member->joining, {}), detail::Welcome{member->id, membership, {}});
    gathers.begin();
  }

  // One that was silent for the whole of its time, while we listened.
  void check_survivors() {
    if (!generations.is_active()) return;
    for (const auto& one : roster.participants())
      if (is_survivor(*one) && one->is_late && !one->left && !one->refusal &&
          Clock::now() > one->late_since + last_chance())
        generations.lose(*one, fmt::format("nothing was heard from it for {:.1f} s",
                                           seconds(options.heartbeat)));
    generations.tick();
  }

  // A connection may outlive its process where another one has it open.
  void lose_ended() {
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

  std::chrono::milliseconds last_chance() const { return options.heartbeat / 6; }

  void note_survival() {
    survives_lost_workers = generations.is_active() && !generations.is_over();
    if (survives_lost_workers) has_survived = true;
    is_run_done = generations.is_run_done();
    if (generations.has_begun()) first_worker = generations.membership().members.at(0).id;
  }

  void check_deadlines() {
    registry.check_waiting();
    if (is_complete()) return gathers.check_deadlines();
    if (Clock::now() < deadline) return;
    std::string text = fmt::format("rendezvous at {}: {} of {} members joined within {:.1f} s",
                                   to_string(endpoint), roster.count_joined(),
                                   roster.size().members(), seconds(options.timeout));
    text += roster.who_is_there();
    for (const std::string& refusal : server->refusals().last())
      text += "; turned away: " + refusal;
    const std::vector<std::int64_t> missing = roster.missing();
    if (!missing.empty()) complaints.push_back({-1, missing[0], text});
    const bool is_worker = !missing.empty() && missing[0] < roster.size().workers;
    fail({Failure::Type::timeout, Role::worker, is_worker ? static_cast<int>(missing[0]) : -1,
          endpoint.host, text});
  }

  // Those of earlier generations.
  bool is_forgotten(const Participant& one) const {
    if (!generations.is_active() || one.id < roster.size().members()) return false;
    const auto now = generations.workers();
    return std::find(now.begin(), now.end(), &one) == now.end();
  }

  bool all_left() const {
    const std::vector<Participant*> all = roster.members();
    return is_complete() && !succession.awaits_members() &&
           std::all_of(all.begin(), all.end(), [](const auto* one) { return one->left; });
  }

  void turn() {
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

  void close() {
    log_refusals();
    log_refusal_count();
    server.reset();
  }

  void note_late_members() {
    for (const Participant* one : roster.members())
      if (!one->left && one->is_late)
        complaints.push_back({-1, one->id,
                              fmt::format("nothing was heard from {} for {:.1f} s", one->title(),
                                          seconds(options.heartbeat))});
  }
};

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
