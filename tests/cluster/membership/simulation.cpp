// SPDX-License-Identifier: Apache-2.0
#include "tests/cluster/membership/simulation.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "lockstep/cluster/membership/alignment.h"
#include "lockstep/cluster/membership/detail/generation_keeper.h"

namespace lockstep::cluster {
namespace {

using detail::Begin;
using detail::Dismiss;
using detail::GenerationKeeper;
using detail::Interrupt;
using Time = detail::KeeperTime;

constexpr std::int64_t kShards = 8, kSteps = 30;
constexpr Time kHeartbeat{3'000}, kPatience{10'000}, kWait{8'000}, kTooLong{600'000}, kLease{3'000},
    kRejoin{6'000};

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9E3779B97F4A7C15ULL + b + 0x632BE59BD9B4E019ULL;
  x = (x ^ (x >> 29)) * 0xBF58476D1CE4E5B9ULL;
  return x ^ (x >> 32);
}

// A shard's part of step `step`, computed from the state before it.
std::uint64_t part(std::uint64_t state, std::int64_t step, std::int64_t shard) {
  return mix(mix(state, static_cast<std::uint64_t>(step)), static_cast<std::uint64_t>(shard));
}

// By step: what nobody disturbs.
std::vector<std::uint64_t> undisturbed() {
  std::vector<std::uint64_t> states{42};
  for (std::int64_t step = 1; step <= kSteps; ++step) {
    std::uint64_t sum = 0;
    for (std::int64_t shard = 0; shard < kShards; ++shard) sum += part(states.back(), step, shard);
    states.push_back(mix(states.back(), sum));
  }
  return states;
}

struct Vote {
  std::int64_t generation = 0, step = 0;
  std::uint64_t sum = 0;
  bool pauses = false;
};

struct Worker {
  explicit Worker(GenerationMember member) : member(std::move(member)) {}
  GenerationMember member;
  bool is_alive = true, is_stopped = false, wants_pause = false, tells = false, has_told = false;
  std::int64_t coordinator = 0;  // the number of the one that it is connected to
  Progress progress = {};
  std::uint64_t state = 0;
  ShardRange range = {};                         // of the shards that it computes
  std::map<std::int64_t, Vote> votes = {};       // by sender, of the step under way
  std::int64_t computed = -1;                    // the step that it has voted for
  std::vector<std::function<void()>> held = {};  // what came while it was stopped
};

class Simulation {
 public:
  explicit Simulation(const SimulationOptions& options)
      : bug_(options.bug),
        random_(options.seed),
        limits_{.min_workers = 1,
                .max_workers = 6,
                .patience = kPatience,
                .fences = options.bug != PlantedBug::skip_fencing},
        keeper_(limits_) {}

  SimulationResult run() {
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

 private:
  struct Event {
    Time at;
    std::int64_t number;
    std::function<void()> what;
    bool operator<(const Event& other) const {
      return std::pair(at, number) > std::pair(other.at, other.number);
    }
  };

  std::int64_t draw(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random_);
  }
  Time delay() { return Time(draw(0, 9) == 0 ? draw(1, 300) : draw(1, 8)); }
  void at(Time when, std::function<void()> what) {
    events_.push({when, next_event_++, std::move(what)});
  }
  void tell(const std::string& line) {
    result_.story += fmt::format("{:6} {}\n", now_.count(), line);
  }
  void complain(const std::string& what) {
    tell("WRONG: " + what);
    if (result_.wrong.empty()) result_.wrong = what;
  }

  // A connection keeps the order of what is sent; -1 is the coordinator. What a dead sender has
  // sent may be lost, from some time on.
  void send(std::int64_t from, std::int64_t to, const std::function<void()>& what) {
    if (cut_.contains({from, to})) return;
    if (from < 0 || to < 0) return send_by_coordinator(from, to, what);
    send_in_order(from, to, what);
  }

  // Nobody hears a coordinator any more that it has left, nor says anything to it.
  void send_by_coordinator(std::int64_t from, std::int64_t to, const std::function<void()>& what) {
    const std::int64_t member = from < 0 ? to : from;
    const std::int64_t number = from < 0 ? coordinator_ : workers_.at(member)->coordinator;
    send_in_order(from, to, [this, member, number, what] {
      if (number == coordinator_ && has_coordinator_ && workers_.at(member)->coordinator == number)
        what();
    });
  }

  void send_in_order(std::int64_t from, std::int64_t to, const std::function<void()>& what) {
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
  void deliver(std::int64_t to, const std::function<void()>& what) {
    Worker& worker = *workers_.at(to);
    if (!worker.is_alive) return;
    worker.is_stopped ? worker.held.push_back(what) : what();
  }

  void start() {
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
  void beat() {
    at(now_ + Time(100), [this] {
      if (has_coordinator_) keeper_.tick(now_);
      act();
      beat();
    });
  }

  // The coordinator does what its keeper says.
  void act() {
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

  void begin_generation(const Membership& membership) {
    tell(
        fmt::format("generation {}: {} workers", membership.generation, membership.members.size()));
    given_.clear();
    for (const Member& one : membership.members)
      send(-1, one.id, [this, id = one.id, membership] { begin(*workers_.at(id), membership); });
  }

  void pass_on(const Interrupt& interrupt) {
    const std::int64_t generation = keeper_.membership().generation;
    send(-1, interrupt.id, [this, interrupt, generation] {
      Worker& worker = *workers_.at(interrupt.id);
      if (!worker.member.accepts(generation)) return;
      worker.wants_pause = true;
      if (interrupt.is_urgent) fail(worker);
    });
  }

  void pass_on(const Dismiss& dismiss) {
    tell(fmt::format("worker {} is dismissed: {}", dismiss.id, dismiss.why));
    send(-1, dismiss.id, [this, dismiss] {
      workers_.at(dismiss.id)->member.end();
      if (dismiss.kind != Dismiss::Kind::finished) return;
      finished_.insert(dismiss.id);
      if (!keeper_.is_over()) tell_result(*workers_.at(dismiss.id));
    });
    if (dismiss.kind == Dismiss::Kind::expelled) replace();
  }

  // Which takes its time: the first worker may be lost before it has.
  void tell_result(Worker& worker) {
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

  void say_told(std::int64_t id) {
    send(id, -1, [this, id] {
      keeper_.tell(id, now_);
      act();
    });
  }

  void take_failure(const std::string& why) {
    tell(why);
    result_.is_lost = true;
    for (const auto& [id, worker] : workers_)
      if (worker->is_alive && keeper_.knows(id) && worker->progress.has_state())
        complain("the job gives up though a worker has its state");
  }

  // The launcher starts another one.
  void replace() {
    if (replaced_++ <= 20) start_late();
  }

  void start_late() {
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

  void report(const Worker& worker, bool is_finished, std::int64_t missed = -1) {
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

  void fail(Worker& worker, std::int64_t missed = -1) {
    worker.member.fail();
    worker.votes.clear();
    report(worker, false, missed);
  }

  void begin(Worker& worker, const Membership& membership) {
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
  void gather(std::int64_t id, std::int64_t generation, const Progress& progress) {
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

  void align(Worker& worker, const std::vector<Progress>& all) {
    if (worker.member.state() != GenerationMember::State::connecting) return;
    const Alignment alignment = worker.member.align_with(all);
    const auto rank = static_cast<std::size_t>(worker.member.rank());
    const auto& members = worker.member.membership().members;
    if (worker.member.rank() == alignment.source)
      for (std::size_t r = 0; r < members.size(); ++r)
        if (alignment.receives[r]) send_state(worker, members[r].id);
    alignment.receives[rank] ? watch_for_timeout(worker) : end_alignment(worker);
  }

  void send_state(const Worker& from, std::int64_t to) {
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

  void end_alignment(Worker& worker) {
    worker.member.aligned();
    if (bug_ != PlantedBug::deal_twice || worker.range.hi == 0) take_range(worker);
    go_on(worker);
  }

  static void take_range(Worker& worker) {
    const auto ranges = worker.member.membership().deal(kShards);
    worker.range = ranges[static_cast<std::size_t>(worker.member.rank())];
  }

  void go_on(Worker& worker) {
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

  void compute(Worker& worker, std::int64_t generation) {
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
  void watch_for_timeout(Worker& worker) {
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

  bool accepts(const Worker& worker, std::int64_t generation) const {
    if (bug_ == PlantedBug::skip_fencing)
      return worker.member.state() != GenerationMember::State::over;
    return worker.member.accepts(generation);
  }

  void take(Worker& worker, std::int64_t from, const Vote& vote) {
    if (!accepts(worker, vote.generation)) return;
    const bool is_wanted = vote.step == worker.progress.step + 1 ||
                           worker.member.state() != GenerationMember::State::computing;
    if (is_wanted) worker.votes[from] = vote;
    take_step(worker);
  }

  // The step counts when the votes of all are there.
  void take_step(Worker& worker) {
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

  void commit(Worker& worker, std::int64_t step, std::uint64_t sum) {
    worker.state = mix(worker.state, sum);
    worker.progress.step = step;
    worker.votes.clear();
    if (worker.state != states_[static_cast<std::size_t>(step)])
      complain(fmt::format("worker {} commits another step {} than the undisturbed job",
                           worker.member.id(), step));
  }

  // What happens to the workers.

  void plan_faults() {
    const std::int64_t count = draw(1, 6);
    for (std::int64_t i = 0; i < count; ++i) at(Time(draw(0, 3'500)), [this] { do_harm(); });
  }

  std::int64_t some_worker() {
    std::vector<std::int64_t> ids;
    for (const auto& [id, worker] : workers_)
      if (worker->is_alive &&
          (worker->tells || worker->member.state() != GenerationMember::State::over))
        ids.push_back(id);
    if (ids.empty()) return -1;
    return ids[static_cast<std::size_t>(draw(0, static_cast<std::int64_t>(ids.size()) - 1))];
  }

  void do_harm() {
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
  void kill_coordinator(std::int64_t with) {
    tell("the coordinator is killed");
    has_coordinator_ = false;
    if (with >= 0) kill(with);
    for (const auto& [id, worker] : workers_)
      at(now_ + delay(),
         [this, id = id] { deliver(id, [this, id] { come_out(*workers_.at(id)); }); });
    at(now_ + kLease, [this] { elect(); });
  }

  static void come_out(Worker& worker) {
    if (!worker.member.accepts(worker.member.generation())) return;
    worker.member.fail();
    worker.votes.clear();
  }

  // One of them goes on from what the store has. Those that it knows have some time to come.
  void elect() {
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

  void rejoin(Worker& worker, std::int64_t number) {
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

  void lose_missing(std::int64_t number) {
    if (number != coordinator_ || !has_coordinator_) return;
    for (const Member& one : std::vector<Member>(keeper_.membership().members))
      if (workers_.at(one.id)->coordinator != number && keeper_.knows(one.id))
        keeper_.lose(one.id, "it did not come", now_);
    act();
  }

  // The store says that the run is done.
  void end_by_record() {
    has_coordinator_ = true;
    for (const auto& [id, worker] : workers_)
      if (worker->is_alive && worker->member.state() != GenerationMember::State::over)
        worker->member.end();
  }

  // The launcher starts those that are missing.
  void resize(std::int64_t workers) {
    tell(fmt::format("the job is to have {} workers", workers));
    keeper_.resize(static_cast<int>(workers), now_);
    act();
    std::int64_t there = 0;
    for (const auto& [id, worker] : workers_)
      if (worker->is_alive && keeper_.knows(id)) ++there;
    for (; there < workers; ++there) start_late();
  }

  void kill(std::int64_t id) {
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

  void stop(std::int64_t id) {
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

  void resume(std::int64_t id) {
    Worker& worker = *workers_.at(id);
    if (!worker.is_alive) return;
    tell(fmt::format("worker {} goes on", id));
    worker.is_stopped = false;
    ++stops_[id];
    for (const auto& what : std::exchange(worker.held, {}))
      at(now_, [this, id, what] { deliver(id, what); });
  }

  // One way, for good.
  void cut(std::int64_t id) {
    const std::int64_t other = some_worker();
    if (other == id) return;
    tell(fmt::format("what worker {} sends to {} is lost", id, other));
    cut_.insert({id, other});
  }

  bool is_done() const {
    if (result_.is_lost) return true;
    if (!keeper_.is_over()) return false;
    return std::all_of(workers_.begin(), workers_.end(), [](const auto& one) {
      const Worker& worker = *one.second;
      return !worker.is_alive || worker.is_stopped ||
             worker.member.state() == GenerationMember::State::over || !worker.progress.has_state();
    });
  }

  void check_end() {
    if (result_.is_lost) return;
    if (!is_told_) complain("the run ends and nobody tells its result");
    if (finished_.empty() && !keeper_.is_over()) return complain("nothing happens any more");
    for (const std::int64_t id : finished_) {
      const Worker& worker = *workers_.at(id);
      if (worker.is_alive && worker.progress.has_state() && worker.progress.step != kSteps)
        complain(fmt::format("worker {} ends at step {}", id, worker.progress.step));
    }
  }

  PlantedBug bug_;
  std::mt19937_64 random_;
  const detail::GenerationLimits limits_;
  GenerationKeeper keeper_;
  bool has_coordinator_ = true;
  std::int64_t coordinator_ = 0;     // its number
  detail::KeeperState record_ = {};  // what the store has of it
  const std::vector<std::uint64_t> states_ = undisturbed();
  Time now_{0};
  std::int64_t next_event_ = 0, next_id_ = 0;
  int replaced_ = 0;
  std::priority_queue<Event> events_;
  std::map<std::int64_t, std::unique_ptr<Worker>> workers_;
  std::map<std::int64_t, Progress> given_;
  std::map<std::pair<std::int64_t, std::int64_t>, Time> last_, lost_from_;
  std::map<std::int64_t, std::int64_t> stops_;
  std::set<std::pair<std::int64_t, std::int64_t>> cut_;
  std::set<std::int64_t> finished_;
  bool is_told_ = false;
  SimulationResult result_;
};

}  // namespace

SimulationResult simulate(const SimulationOptions& options) { return Simulation(options).run(); }

}  // namespace lockstep::cluster
