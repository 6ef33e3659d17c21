// SPDX-License-Identifier: Apache-2.0
#include "lockstep/parallel/simulator.h"

#include <algorithm>
#include <queue>
#include <unordered_map>
#include <unordered_set>

#include "lockstep/base/error.h"

namespace lockstep::parallel {
namespace {

using Kind = Task::Kind;

// A lane of a worker, and when it is ready for its next task.
struct Lane {
  const std::vector<Task>* tasks = nullptr;
  std::size_t next = 0;
  double now = 0.0;
  double pushed_back = 0.0;  // its core was taken meanwhile
  int worker = 0;
  bool is_computing = false;
  bool is_done() const { return next == tasks->size(); }
};

// When a host's link is free again.
struct HostLink {
  double out = 0.0, in = 0.0;
};

// Events in the order of time: so links are given to whoever came first.
class Simulation {
 public:
  Simulation(const StepTasks& step, const ClusterModel& cluster, const SimulationOptions& options)
      : step_(step),
        cluster_(cluster),
        options_(options),
        links_(static_cast<std::size_t>(cluster.hosts)) {
    result_.busy.resize(step.workers.size());
    if (options.keeps_spans) result_.spans.resize(step.workers.size());
    for (std::size_t w = 0; w < step.workers.size(); ++w)
      for (const bool is_computing : {true, false})
        lanes_.push_back(
            {.tasks = is_computing ? &step.workers[w].computing : &step.workers[w].exchange,
             .worker = static_cast<int>(w),
             .is_computing = is_computing});
    waiting_.resize(step.collectives.size());
    for (const Collective& collective : step.collectives)
      traffic_.push_back(traffic_of(collective, cluster));
  }

  SimulatedStep run() {
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) push(lane);
    while (!ready_.empty()) {
      const std::size_t lane = ready_.top().second;
      ready_.pop();
      if (lanes_[lane].pushed_back > 0.0) {
        lanes_[lane].now += std::exchange(lanes_[lane].pushed_back, 0.0);
        push(lane);
        continue;
      }
      act(lane);
    }
    for (const Lane& lane : lanes_) {
      if (!lane.is_done())
        throw InvalidArgument("simulate: worker {} would wait for ever at its task {}", lane.worker,
                              lane.next);
      result_.seconds = std::max(result_.seconds, lane.now);
    }
    return std::move(result_);
  }

 private:
  using Event = std::pair<double, std::size_t>;  // time, lane

  void push(std::size_t lane) {
    if (!lanes_[lane].is_done()) ready_.emplace(lanes_[lane].now, lane);
  }
  void wake(std::size_t lane, double time) {
    lanes_[lane].now = std::max(lanes_[lane].now, time);
    ++lanes_[lane].next;
    push(lane);
  }
  static std::int64_t mark_of(int worker, std::int64_t id) {
    return (static_cast<std::int64_t>(worker) << 32) + id;
  }

  void act(std::size_t number) {
    Lane& lane = lanes_[number];
    const Task& task = (*lane.tasks)[lane.next];
    switch (task.kind) {
      case Kind::compute: compute(lane, task); return wake(number, lane.now);
      case Kind::send: deliver(task.id, transfer(lane, task), messages_); break;
      case Kind::mark: deliver(mark_of(lane.worker, task.id), lane.now, marks_); break;
      case Kind::receive: return await(number, task.id, messages_);
      case Kind::wait: return await(number, mark_of(lane.worker, task.id), marks_);
      case Kind::join: return join(number, static_cast<std::size_t>(task.id));
    }
    wake(number, lane.now);
  }

  void compute(Lane& lane, const Task& task) {
    const auto worker = static_cast<std::size_t>(lane.worker);
    const double slowness = options_.slowness.empty() ? 1.0 : options_.slowness[worker];
    const double begin = lane.now, seconds = task.seconds * slowness;
    lane.now += seconds;
    result_.busy[worker] += seconds;
    if (!lane.is_computing) return take_core(lane, seconds);
    if (options_.keeps_spans && seconds > 0.0)
      result_.spans[worker].push_back({task.phase, task.shard, begin, lane.now});
  }

  // What the exchange does, the computing thread cannot do meanwhile.
  void take_core(const Lane& exchange, double seconds) {
    Lane& computing = lanes_[2 * static_cast<std::size_t>(exchange.worker)];
    if (!cluster_.has_spare_cores && !computing.is_done() && !blocked_.contains(exchange.worker))
      computing.pushed_back += seconds;
  }

  double transfer(const Lane& lane, const Task& task) {
    const int from = cluster_.host_of(lane.worker), to = cluster_.host_of(task.peer);
    if (from == to)
      return lane.now + cluster_.inside.latency_s + cluster_.inside.message_s +
             cluster_.inside.seconds(task.bytes);
    double& out = links_[static_cast<std::size_t>(from)].out;
    double& in = links_[static_cast<std::size_t>(to)].in;
    const double end = std::max({lane.now, out, in}) + cluster_.network.seconds(task.bytes);
    out = in = end;
    return end + cluster_.network.latency_s + cluster_.network.message_s;
  }

  struct Delivery {
    std::optional<double> time = {};
    std::optional<std::size_t> waits = {};  // a lane
  };
  using Deliveries = std::unordered_map<std::int64_t, Delivery>;

  void deliver(std::int64_t id, double time, Deliveries& all) {
    Delivery& delivery = all[id];
    delivery.time = time;
    if (delivery.waits) let_go(*delivery.waits, time);
  }
  void await(std::size_t number, std::int64_t id, Deliveries& all) {
    Delivery& delivery = all[id];
    if (delivery.time) return wake(number, *delivery.time);
    delivery.waits = number;
    if (lanes_[number].is_computing) blocked_.insert(lanes_[number].worker);
  }
  void let_go(std::size_t number, double time) {
    if (lanes_[number].is_computing) blocked_.erase(lanes_[number].worker);
    wake(number, time);
  }

  void join(std::size_t number, std::size_t id) {
    waiting_[id].push_back(number);
    if (lanes_[number].is_computing) blocked_.insert(lanes_[number].worker);
    if (waiting_[id].size() < step_.collectives[id].ranks.size()) return;
    const Traffic& traffic = traffic_[id];
    const double begin = lanes_[number].now;  // the last to come
    double end = begin + traffic.inside_s + traffic.core_s;
    for (const Traffic::Host& host : traffic.hosts) {
      HostLink& link = links_[static_cast<std::size_t>(host.host)];
      link.out = std::max(link.out, begin) + cluster_.network.seconds(host.out);
      link.in = std::max(link.in, begin) + cluster_.network.seconds(host.in);
      end = std::max({end, link.out, link.in});
    }
    for (const std::size_t lane : waiting_[id]) {
      let_go(lane, end + traffic.latency_s);
      if (!lanes_[lane].is_computing) take_core(lanes_[lane], traffic.core_s);
    }
  }

  const StepTasks& step_;
  const ClusterModel& cluster_;
  const SimulationOptions& options_;
  std::vector<Lane> lanes_;  // computing and exchange of each worker in turn
  std::vector<HostLink> links_;
  std::vector<Traffic> traffic_;
  std::vector<std::vector<std::size_t>> waiting_;  // lanes, by collective
  Deliveries messages_, marks_;
  std::unordered_set<int> blocked_;  // workers whose computing lane waits
  std::priority_queue<Event, std::vector<Event>, std::greater<>> ready_;
  SimulatedStep result_;
};

}  // namespace

SimulatedStep simulate_step(const StepTasks& step, const ClusterModel& cluster,
                            const SimulationOptions& options) {
  return Simulation(step, cluster, options).run();
}

}  // namespace lockstep::parallel
