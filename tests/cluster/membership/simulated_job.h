// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/core.h>

#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/cluster/membership/alignment.h"
#include "lockstep/cluster/membership/detail/generation_keeper.h"
#include "tests/cluster/membership/simulation.h"

namespace lockstep::cluster::simulated {

using detail::Begin;
using detail::Dismiss;
using detail::GenerationKeeper;
using detail::Interrupt;
using Time = detail::KeeperTime;

inline constexpr std::int64_t kShards = 8, kSteps = 30;
inline constexpr Time kHeartbeat{3'000}, kPatience{10'000}, kWait{8'000}, kTooLong{600'000},
    kLease{3'000}, kRejoin{6'000};

std::uint64_t mix(std::uint64_t a, std::uint64_t b);
// A shard's part of step `step`, computed from the state before it.
std::uint64_t part(std::uint64_t state, std::int64_t step, std::int64_t shard);
// By step: what nobody disturbs.
std::vector<std::uint64_t> undisturbed();

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

// simulate() says what it is.
class Simulation {
 public:
  explicit Simulation(const SimulationOptions& options);
  SimulationResult run();

 private:
  struct Event {
    Time at;
    std::int64_t number;
    std::function<void()> what;
    bool operator<(const Event& other) const {
      return std::pair(at, number) > std::pair(other.at, other.number);
    }
  };

  // simulation.cpp: time, the network, the coordinator.
  std::int64_t draw(std::int64_t least, std::int64_t most);
  Time delay() { return Time(draw(0, 9) == 0 ? draw(1, 300) : draw(1, 8)); }
  void at(Time when, std::function<void()> what);
  void tell(const std::string& line);
  void complain(const std::string& what);
  void send(std::int64_t from, std::int64_t to, const std::function<void()>& what);
  void send_by_coordinator(std::int64_t from, std::int64_t to, const std::function<void()>& what);
  void send_in_order(std::int64_t from, std::int64_t to, const std::function<void()>& what);
  void deliver(std::int64_t to, const std::function<void()>& what);
  void start();
  void beat();
  void act();
  void begin_generation(const Membership& membership);
  void pass_on(const Interrupt& interrupt);
  void pass_on(const Dismiss& dismiss);
  void take_failure(const std::string& why);
  void replace();
  void start_late();
  bool is_done() const;
  void check_end();

  // simulated_workers.cpp: what a worker does, from one generation into the next.
  void tell_result(Worker& worker);
  void say_told(std::int64_t id);
  void report(const Worker& worker, bool is_finished, std::int64_t missed = -1);
  void fail(Worker& worker, std::int64_t missed = -1);
  void begin(Worker& worker, const Membership& membership);
  void gather(std::int64_t id, std::int64_t generation, const Progress& progress);
  void align(Worker& worker, const std::vector<Progress>& all);
  void send_state(const Worker& from, std::int64_t to);
  void end_alignment(Worker& worker);
  static void take_range(Worker& worker);
  void go_on(Worker& worker);
  void compute(Worker& worker, std::int64_t generation);
  void watch_for_timeout(Worker& worker);
  bool accepts(const Worker& worker, std::int64_t generation) const;
  void take(Worker& worker, std::int64_t from, const Vote& vote);
  void take_step(Worker& worker);
  void commit(Worker& worker, std::int64_t step, std::uint64_t sum);

  // simulated_faults.cpp: what happens to them all.
  void plan_faults();
  std::int64_t some_worker();
  void do_harm();
  void kill_coordinator(std::int64_t with);
  static void come_out(Worker& worker);
  void elect();
  void rejoin(Worker& worker, std::int64_t number);
  void lose_missing(std::int64_t number);
  void end_by_record();
  void resize(std::int64_t workers);
  void kill(std::int64_t id);
  void stop(std::int64_t id);
  void resume(std::int64_t id);
  void cut(std::int64_t id);

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

}  // namespace lockstep::cluster::simulated
