// SPDX-License-Identifier: Apache-2.0
#include "tests/cluster/membership/simulated_job.h"

namespace lockstep::cluster {
namespace simulated {

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9E3779B97F4A7C15ULL + b + 0x632BE59BD9B4E019ULL;
  x = (x ^ (x >> 29)) * 0xBF58476D1CE4E5B9ULL;
  return x ^ (x >> 32);
}

std::uint64_t part(std::uint64_t state, std::int64_t step, std::int64_t shard) {
  return mix(mix(state, static_cast<std::uint64_t>(step)), static_cast<std::uint64_t>(shard));
}

std::vector<std::uint64_t> undisturbed() {
  std::vector<std::uint64_t> states{42};
  for (std::int64_t step = 1; step <= kSteps; ++step) {
    std::uint64_t sum = 0;
    for (std::int64_t shard = 0; shard < kShards; ++shard) sum += part(states.back(), step, shard);
    states.push_back(mix(states.back(), sum));
  }
  return states;
}

// Which takes its time: the first worker may be lost before it has.
void Simulation::tell_result(Worker& worker) {
  worker.tells = true;
  const std::int64_t id = worker.member.id();
  at(now_ + Time(draw(1, 500)), [this, id] {
    deliver(id, [this, id] {
      tell(fmt::format("worker {} tells the result", id));
      is_told_ = workers_.at(id)->has_told = true;
      say_told(id);
    });
  });
}

void Simulation::say_told(std::int64_t id) {
  send(id, -1, [this, id] {
    keeper_.tell(id, now_);
    act();
  });
}

void Simulation::report(const Worker& worker, bool is_finished, std::int64_t missed) {
  const std::int64_t id = worker.member.id();
  const detail::WorkerReport said{.generation = worker.member.generation(),
                                  .has_state = worker.progress.has_state(),
                                  .is_finished = is_finished,
                                  .step = worker.progress.step,
                                  .missed = missed};
  send(id, -1, [this, id, said] {
    keeper_.report(id, said, now_);
    act();
  });
}

void Simulation::fail(Worker& worker, std::int64_t missed) {
  worker.member.fail();
  worker.votes.clear();
  report(worker, false, missed);
}

void Simulation::begin(Worker& worker, const Membership& membership) {
  if (worker.member.state() != GenerationMember::State::reporting) return;
  worker.member.begin(membership);
  worker.wants_pause = false;
  worker.votes.clear();
  worker.computed = -1;
  const std::int64_t id = worker.member.id(), generation = membership.generation;
  send(id, -1,
       [this, id, generation, progress = worker.progress] { gather(id, generation, progress); });
}

// The members' all_gather by the coordinator, by which they connect.
void Simulation::gather(std::int64_t id, std::int64_t generation, const Progress& progress) {
  if (!keeper_.is_current(id, generation)) return;
  given_[id] = progress;
  std::vector<Progress> all;
  for (const Member& one : keeper_.membership().members) {
    if (!given_.contains(one.id)) return;
    all.push_back(given_.at(one.id));
  }
  for (const Member& one : keeper_.membership().members)
    send(-1, one.id, [this, to = one.id, generation, all] {
      if (workers_.at(to)->member.accepts(generation)) align(*workers_.at(to), all);
    });
  given_.clear();
}

void Simulation::align(Worker& worker, const std::vector<Progress>& all) {
  if (worker.member.state() != GenerationMember::State::connecting) return;
  const Alignment alignment = worker.member.align_with(all);
  const auto rank = static_cast<std::size_t>(worker.member.rank());
  const auto& members = worker.member.membership().members;
  if (worker.member.rank() == alignment.source)
    for (std::size_t r = 0; r < members.size(); ++r)
      if (alignment.receives[r]) send_state(worker, members[r].id);
  alignment.receives[rank] ? watch_for_timeout(worker) : end_alignment(worker);
}

void Simulation::send_state(const Worker& from, std::int64_t to) {
  send(from.member.id(), to,
       [this, to, generation = from.member.generation(), progress = from.progress,
        state = from.state] {
         Worker& worker = *workers_.at(to);
         if (!accepts(worker, generation) ||
             worker.member.state() != GenerationMember::State::aligning)
           return;
         worker.progress = progress;
         if (bug_ != PlantedBug::half_transfer) worker.state = state;
         end_alignment(worker);
       });
}

void Simulation::end_alignment(Worker& worker) {
  worker.member.aligned();
  if (bug_ != PlantedBug::deal_twice || worker.range.hi == 0) take_range(worker);
  go_on(worker);
}

void Simulation::take_range(Worker& worker) {
  const auto ranges = worker.member.membership().deal(kShards);
  worker.range = ranges[static_cast<std::size_t>(worker.member.rank())];
}

void Simulation::go_on(Worker& worker) {
  const std::int64_t id = worker.member.id(), generation = worker.member.generation();
  if (worker.progress.step >= kSteps) {
    worker.member.fail();  // it waits for the coordinator's word
    return report(worker, true);
  }
  at(now_ + Time(draw(20, 60)), [this, id, generation] {
    deliver(id, [this, id, generation] { compute(*workers_.at(id), generation); });
  });
  take_step(worker);  // votes may have come before
}

void Simulation::compute(Worker& worker, std::int64_t generation) {
  const std::int64_t step = worker.progress.step + 1;
  if (!worker.member.accepts(generation) || worker.computed >= step) return;
  worker.computed = step;
  Vote vote{.generation = generation, .step = step, .pauses = worker.wants_pause};
  for (std::int64_t shard = worker.range.lo; shard < worker.range.hi; ++shard)
    vote.sum += part(worker.state, step, shard);
  const std::int64_t from = worker.member.id();
  for (const Member& one : worker.member.membership().members)
    if (one.id != from)
      send(from, one.id, [this, from, to = one.id, vote] { take(*workers_.at(to), from, vote); });
  watch_for_timeout(worker);
  take(worker, from, vote);
}

// What does not come in time is missed, whoever is to blame.
void Simulation::watch_for_timeout(Worker& worker) {
  const std::int64_t id = worker.member.id(), generation = worker.member.generation();
  const std::int64_t step = worker.progress.step;
  at(now_ + kWait, [this, id, generation, step] {
    deliver(id, [this, id, generation, step] {
      Worker& late = *workers_.at(id);
      if (!late.member.accepts(generation) || late.progress.step != step) return;
      std::int64_t missed = -1;
      for (const Member& one : late.member.membership().members)
        if (one.id != id && !late.votes.contains(one.id)) missed = one.id;
      fail(late, missed);
    });
  });
}

bool Simulation::accepts(const Worker& worker, std::int64_t generation) const {
  if (bug_ == PlantedBug::skip_fencing)
    return worker.member.state() != GenerationMember::State::over;
  return worker.member.accepts(generation);
}

void Simulation::take(Worker& worker, std::int64_t from, const Vote& vote) {
  if (!accepts(worker, vote.generation)) return;
  const bool is_wanted = vote.step == worker.progress.step + 1 ||
                         worker.member.state() != GenerationMember::State::computing;
  if (is_wanted) worker.votes[from] = vote;
  take_step(worker);
}

// The step counts when the votes of all are there.
void Simulation::take_step(Worker& worker) {
  if (worker.member.state() != GenerationMember::State::computing) return;
  const std::int64_t step = worker.progress.step + 1;
  std::uint64_t sum = 0;
  std::size_t count = 0;
  bool pauses = false;
  const auto& members = worker.member.membership().members;
  for (const Member& one : members) {
    const auto vote = worker.votes.find(one.id);
    if (vote == worker.votes.end() || vote->second.step != step) continue;
    sum += vote->second.sum;
    pauses = pauses || vote->second.pauses;
    ++count;
  }
  const std::size_t needed =
      bug_ == PlantedBug::half_commit && members.size() > 1 ? members.size() - 1 : members.size();
  if (count < needed || worker.computed < step) return;
  commit(worker, step, sum);
  if (pauses && worker.progress.step < kSteps) return fail(worker);
  go_on(worker);
}

void Simulation::commit(Worker& worker, std::int64_t step, std::uint64_t sum) {
  worker.state = mix(worker.state, sum);
  worker.progress.step = step;
  worker.votes.clear();
  if (worker.state != states_[static_cast<std::size_t>(step)])
    complain(fmt::format("worker {} commits another step {} than the undisturbed job",
                         worker.member.id(), step));
}

}  // namespace simulated
}  // namespace lockstep::cluster
