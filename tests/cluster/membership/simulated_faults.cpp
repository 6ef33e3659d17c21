// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tests/cluster/membership/simulated_job.h"

namespace lockstep::cluster {
namespace simulated {

// What happens to the workers.
void Simulation::plan_faults() {
  const std::int64_t count = draw(1, 6);
  for (std::int64_t i = 0; i < count; ++i) at(Time(draw(0, 3'500)), [this] { do_harm(); });
}

std::int64_t Simulation::some_worker() {
  std::vector<std::int64_t> ids;
  for (const auto& [id, worker] : workers_)
    if (worker->is_alive &&
        (worker->tells || worker->member.state() != GenerationMember::State::over))
      ids.push_back(id);
  if (ids.empty()) return -1;
  return ids[static_cast<std::size_t>(draw(0, static_cast<std::int64_t>(ids.size()) - 1))];
}

void Simulation::do_harm() {
  const std::int64_t id = some_worker();
  if (id < 0 || keeper_.is_over()) return;
  if (!has_coordinator_) return at(now_ + Time(500), [this] { do_harm(); });
  ++result_.faults;
  switch (draw(0, 8)) {
    case 0:
    case 1: return kill(id);
    case 2: return stop(id);
    case 3: return cut(id);
    case 4:
      tell(fmt::format("worker {} is asked to leave", id));
      keeper_.release(id, "asked to", now_);
      return act();
    case 5: return resize(draw(2, 6));
    case 6: tell("one more comes by itself"); return start_late();
    case 7: return kill_coordinator(-1);
    case 8: return kill_coordinator(id);
  }
}

// With the worker in whose process it is, or alone. Whoever is connected to it notices.
void Simulation::kill_coordinator(std::int64_t with) {
  tell("the coordinator is killed");
  has_coordinator_ = false;
  if (with >= 0) kill(with);
  for (const auto& [id, worker] : workers_)
    at(now_ + delay(),
       [this, id = id] { deliver(id, [this, id] { come_out(*workers_.at(id)); }); });
  at(now_ + kLease, [this] { elect(); });
}

void Simulation::come_out(Worker& worker) {
  if (!worker.member.accepts(worker.member.generation())) return;
  worker.member.fail();
  worker.votes.clear();
}

// One of them goes on from what the store has. Those that it knows have some time to come.
void Simulation::elect() {
  if (record_.is_over) return end_by_record();
  tell("another one coordinates the job");
  has_coordinator_ = true;
  ++coordinator_;
  given_.clear();
  keeper_ = GenerationKeeper(limits_);
  keeper_.resume(record_, now_);
  act();
  for (const auto& [id, worker] : workers_)
    at(now_ + delay(), [this, id = id, number = coordinator_] {
      deliver(id, [this, id, number] { rejoin(*workers_.at(id), number); });
    });
  at(now_ + kRejoin, [this, number = coordinator_] { lose_missing(number); });
}

void Simulation::rejoin(Worker& worker, std::int64_t number) {
  const std::int64_t id = worker.member.id();
  const bool is_over = worker.member.state() == GenerationMember::State::over && !worker.tells;
  if (is_over || number != coordinator_ || !has_coordinator_) return;
  worker.coordinator = number;
  if (worker.member.generation() == 0 && !keeper_.knows(id)) keeper_.add(id, "localhost");
  if (!keeper_.knows(id)) return worker.member.end();
  if (worker.has_told) return say_told(id);
  if (worker.tells) return;
  come_out(worker);
  report(worker, worker.progress.step >= kSteps);
}

void Simulation::lose_missing(std::int64_t number) {
  if (number != coordinator_ || !has_coordinator_) return;
  for (const Member& one : std::vector<Member>(keeper_.membership().members))
    if (workers_.at(one.id)->coordinator != number && keeper_.knows(one.id))
      keeper_.lose(one.id, "it did not come", now_);
  act();
}

// The store says that the run is done.
void Simulation::end_by_record() {
  has_coordinator_ = true;
  for (const auto& [id, worker] : workers_)
    if (worker->is_alive && worker->member.state() != GenerationMember::State::over)
      worker->member.end();
}

// The launcher starts those that are missing.
void Simulation::resize(std::int64_t workers) {
  tell(fmt::format("the job is to have {} workers", workers));
  keeper_.resize(static_cast<int>(workers), now_);
  act();
  std::int64_t there = 0;
  for (const auto& [id, worker] : workers_)
    if (worker->is_alive && keeper_.knows(id)) ++there;
  for (; there < workers; ++there) start_late();
}

void Simulation::kill(std::int64_t id) {
  tell(fmt::format("worker {} is killed", id));
  Worker& dead = *workers_.at(id);
  dead.is_alive = false;
  for (const auto& [other, worker] : workers_) lost_from_[{id, other}] = now_ + delay();
  lost_from_[{id, -1}] = now_ + delay();
  const std::int64_t generation = dead.member.generation();
  for (const Member& one : dead.member.membership().members)
    if (one.id != id)
      at(now_ + delay(), [this, peer = one.id, generation] {
        deliver(peer, [this, peer, generation] {
          if (workers_.at(peer)->member.accepts(generation)) fail(*workers_.at(peer));
        });
      });
  at(now_ + delay(), [this, id] {
    if (has_coordinator_) keeper_.lose(id, "killed", now_);
    act();
  });
}

void Simulation::stop(std::int64_t id) {
  Worker& worker = *workers_.at(id);
  if (worker.is_stopped) return;
  const bool goes_on = draw(0, 2) > 0;
  const Time length(draw(100, 12'000));
  tell(fmt::format("worker {} is stopped for {}", id, goes_on ? length.count() : -1));
  worker.is_stopped = true;
  if (goes_on) at(now_ + length, [this, id] { resume(id); });
  at(now_ + kHeartbeat, [this, id, since = ++stops_[id]] {
    if (!workers_.at(id)->is_stopped || stops_[id] != since || !has_coordinator_) return;
    keeper_.lose(id, "not heard", now_);
    act();
  });
}

void Simulation::resume(std::int64_t id) {
  Worker& worker = *workers_.at(id);
  if (!worker.is_alive) return;
  tell(fmt::format("worker {} goes on", id));
  worker.is_stopped = false;
  ++stops_[id];
  for (const auto& what : std::exchange(worker.held, {}))
    at(now_, [this, id, what] { deliver(id, what); });
}

// One way, for good.
void Simulation::cut(std::int64_t id) {
  const std::int64_t other = some_worker();
  if (other == id) return;
  tell(fmt::format("what worker {} sends to {} is lost", id, other));
  cut_.insert({id, other});
}

}  // namespace simulated
}  // namespace lockstep::cluster
