// SPDX-License-Identifier: Apache-2.0
#include "tests/cluster/membership/simulation.h"

#include <algorithm>

#include "tests/cluster/membership/simulated_job.h"

namespace lockstep::cluster {
namespace simulated {

Simulation::Simulation(const SimulationOptions& options)
    : bug_(options.bug),
      random_(options.seed),
      limits_{.min_workers = 1,
              .max_workers = 6,
              .patience = kPatience,
              .fences = options.bug != PlantedBug::skip_fencing},
      keeper_(limits_) {}

SimulationResult Simulation::run() {
  start();
  plan_faults();
  while (!events_.empty() && result_.wrong.empty() && !is_done()) {
    const Event event = events_.top();
    events_.pop();
    now_ = event.at;
    if (now_ > kTooLong) complain("the job hangs");
    event.what();
  }
  if (result_.wrong.empty()) check_end();
  result_.generations = keeper_.membership().generation;
  return std::move(result_);
}

std::int64_t Simulation::draw(std::int64_t least, std::int64_t most) {
  return std::uniform_int_distribution<std::int64_t>(least, most)(random_);
}

void Simulation::at(Time when, std::function<void()> what) {
  events_.push({when, next_event_++, std::move(what)});
}

void Simulation::tell(const std::string& line) {
  result_.story += fmt::format("{:6} {}\n", now_.count(), line);
}

void Simulation::complain(const std::string& what) {
  tell("WRONG: " + what);
  if (result_.wrong.empty()) result_.wrong = what;
}

// A connection keeps the order of what is sent; -1 is the coordinator. What a dead sender has
// sent may be lost, from some time on.
void Simulation::send(std::int64_t from, std::int64_t to, const std::function<void()>& what) {
  if (cut_.contains({from, to})) return;
  if (from < 0 || to < 0) return send_by_coordinator(from, to, what);
  send_in_order(from, to, what);
}

// Nobody hears a coordinator any more that it has left, nor says anything to it.
void Simulation::send_by_coordinator(std::int64_t from, std::int64_t to,
                                     const std::function<void()>& what) {
  const std::int64_t member = from < 0 ? to : from;
  const std::int64_t number = from < 0 ? coordinator_ : workers_.at(member)->coordinator;
  send_in_order(from, to, [this, member, number, what] {
    if (number == coordinator_ && has_coordinator_ && workers_.at(member)->coordinator == number)
      what();
  });
}

void Simulation::send_in_order(std::int64_t from, std::int64_t to,
                               const std::function<void()>& what) {
  Time& last = last_[{from, to}];
  last = std::max(last, now_ + delay());
  const Time when = last;
  at(when, [this, from, to, what, when] {
    const auto lost = lost_from_.find({from, to});
    if (lost != lost_from_.end() && when >= lost->second) return;
    to < 0 ? what() : deliver(to, what);
  });
}

// To one that is stopped when it goes on.
void Simulation::deliver(std::int64_t to, const std::function<void()>& what) {
  Worker& worker = *workers_.at(to);
  if (!worker.is_alive) return;
  worker.is_stopped ? worker.held.push_back(what) : what();
}

void Simulation::start() {
  Membership first{.generation = 1};
  const std::int64_t count = draw(2, 6);
  for (std::int64_t id = 0; id < count; ++id) first.members.push_back({.id = id});
  keeper_.begin_with(first);
  record_ = keeper_.state();
  for (next_id_ = 0; next_id_ < count; ++next_id_) {
    workers_[next_id_] = std::make_unique<Worker>(GenerationMember(next_id_, first));
    Worker& worker = *workers_[next_id_];
    worker.progress.step = 0;
    worker.state = states_[0];
    take_range(worker);
    go_on(worker);
  }
  beat();
}

// The coordinator's clock.
void Simulation::beat() {
  at(now_ + Time(100), [this] {
    if (has_coordinator_) keeper_.tick(now_);
    act();
    beat();
  });
}

// The coordinator does what its keeper says.
void Simulation::act() {
  if (!has_coordinator_) return;
  const std::vector<detail::KeeperAction> actions = keeper_.take_actions();
  if (!actions.empty()) record_ = keeper_.state();
  for (const detail::KeeperAction& action : actions) {
    if (const auto* begin = std::get_if<Begin>(&action)) begin_generation(begin->membership);
    if (const auto* interrupt = std::get_if<Interrupt>(&action)) pass_on(*interrupt);
    if (const auto* dismiss = std::get_if<Dismiss>(&action)) pass_on(*dismiss);
    if (const auto* fail = std::get_if<detail::FailJob>(&action)) take_failure(fail->why);
  }
}

void Simulation::begin_generation(const Membership& membership) {
  tell(fmt::format("generation {}: {} workers", membership.generation, membership.members.size()));
  given_.clear();
  for (const Member& one : membership.members)
    send(-1, one.id, [this, id = one.id, membership] { begin(*workers_.at(id), membership); });
}

void Simulation::pass_on(const Interrupt& interrupt) {
  const std::int64_t generation = keeper_.membership().generation;
  send(-1, interrupt.id, [this, interrupt, generation] {
    Worker& worker = *workers_.at(interrupt.id);
    if (!worker.member.accepts(generation)) return;
    worker.wants_pause = true;
    if (interrupt.is_urgent) fail(worker);
  });
}

void Simulation::pass_on(const Dismiss& dismiss) {
  tell(fmt::format("worker {} is dismissed: {}", dismiss.id, dismiss.why));
  send(-1, dismiss.id, [this, dismiss] {
    workers_.at(dismiss.id)->member.end();
    if (dismiss.kind != Dismiss::Kind::finished) return;
    finished_.insert(dismiss.id);
    if (!keeper_.is_over()) tell_result(*workers_.at(dismiss.id));
  });
  if (dismiss.kind == Dismiss::Kind::expelled) replace();
}

void Simulation::take_failure(const std::string& why) {
  tell(why);
  result_.is_lost = true;
  for (const auto& [id, worker] : workers_)
    if (worker->is_alive && keeper_.knows(id) && worker->progress.has_state())
      complain("the job gives up though a worker has its state");
}

// The launcher starts another one.
void Simulation::replace() {
  if (replaced_++ <= 20) start_late();
}

void Simulation::start_late() {
  at(now_ + Time(draw(10, 2'000)), [this] {
    if (!has_coordinator_) return start_late();
    if (keeper_.is_over()) return;
    const std::int64_t id = next_id_++;
    tell(fmt::format("worker {} gets ready", id));
    workers_[id] = std::make_unique<Worker>(GenerationMember(id));
    workers_[id]->coordinator = coordinator_;
    keeper_.add(id, "localhost");
    at(now_ + Time(draw(1, 1'000)),
       [this, id] { deliver(id, [this, id] { report(*workers_.at(id), false); }); });
  });
}

bool Simulation::is_done() const {
  if (result_.is_lost) return true;
  if (!keeper_.is_over()) return false;
  return std::all_of(workers_.begin(), workers_.end(), [](const auto& one) {
    const Worker& worker = *one.second;
    return !worker.is_alive || worker.is_stopped ||
           worker.member.state() == GenerationMember::State::over || !worker.progress.has_state();
  });
}

void Simulation::check_end() {
  if (result_.is_lost) return;
  if (!is_told_) complain("the run ends and nobody tells its result");
  if (finished_.empty() && !keeper_.is_over()) return complain("nothing happens any more");
  for (const std::int64_t id : finished_) {
    const Worker& worker = *workers_.at(id);
    if (worker.is_alive && worker.progress.has_state() && worker.progress.step != kSteps)
      complain(fmt::format("worker {} ends at step {}", id, worker.progress.step));
  }
}

}  // namespace simulated

SimulationResult simulate(const SimulationOptions& options) {
  return simulated::Simulation(options).run();
}

}  // namespace lockstep::cluster
