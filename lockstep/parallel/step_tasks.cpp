// SPDX-License-Identifier: Apache-2.0
#include "lockstep/parallel/step_tasks.h"

#include "lockstep/base/error.h"
#include "lockstep/parallel/step_memory.h"

namespace lockstep::parallel {
namespace {

using Kind = Task::Kind;
using Phase = Task::Phase;

constexpr double kVoteBytes = 64.0;  // beside the rows

// Seconds of a worker's segments together.
struct StageSeconds {
  double forward = 0.0, backward = 0.0, refresh = 0.0, update = 0.0;
  SliceTransfers forward_slices = {}, backward_slices = {};
};

void add(const SliceTransfers& of_segment, SliceTransfers& sum) {
  sum.sum_bytes += of_segment.sum_bytes;
  sum.gather_bytes += of_segment.gather_bytes;
  sum.sums += of_segment.sums;
  sum.gathers += of_segment.gathers;
}

StageSeconds seconds_of(const StepCosts& costs, const ShardRange& segments) {
  StageSeconds sum;
  for (std::int64_t s = segments.lo; s < segments.hi; ++s) {
    const SegmentCost& segment = costs.segments[static_cast<std::size_t>(s)];
    sum.forward += segment.forward_s;
    sum.backward += segment.backward_s;
    sum.refresh += segment.refresh_s;
    sum.update += segment.update_s;
    add(segment.forward_slices, sum.forward_slices);
    add(segment.backward_slices, sum.backward_slices);
  }
  return sum;
}

// When a stage's backward pass, from its last segment on, has made each bucket.
std::vector<double> bucket_times(const StepCosts& costs, const ShardRange& segments,
                                 const std::vector<Bucket>& buckets) {
  std::vector<double> times;
  for (const Bucket& bucket : buckets) {
    double time = 0.0;
    for (std::int64_t s = bucket.segment + 1; s < segments.hi; ++s)
      time += costs.segments[static_cast<std::size_t>(s)].backward_s;
    times.push_back(time + bucket.at *
                               costs.segments[static_cast<std::size_t>(bucket.segment)].backward_s);
  }
  return times;
}

// Collectives of a group of workers, made when the first of them comes: all come in one order.
class Group {
 public:
  Group(StepTasks& step, std::vector<int> ranks, std::vector<int> nodes, comm::Algorithm algorithm)
      : step_(step), ranks_(std::move(ranks)), nodes_(std::move(nodes)), algorithm_(algorithm) {}

  // The number `turn` of the group's, or none where there is nobody else.
  void join(std::vector<Task>& lane, std::size_t turn, Collective::Kind kind, double bytes,
            int calls = 1) {
    if (ranks_.size() < 2) return;
    if (turn == numbers_.size()) {
      numbers_.push_back(step_.collectives.size());
      step_.collectives.push_back({kind, algorithm_, ranks_, nodes_, bytes, calls});
    }
    lane.push_back({
        .kind = Kind::join,
        .id = static_cast<std::int64_t>(numbers_[turn]),
    });
  }

 private:
  StepTasks& step_;
  std::vector<int> ranks_, nodes_;
  comm::Algorithm algorithm_;
  std::vector<std::size_t> numbers_;
};

// That a worker is in.
struct Groups {
  Group& same_cell;   // of all replicas
  Group& replica;     // all of its own
  Group& same_stage;  // with its stage's other slices
};

class Writer {
 public:
  Writer(const StepCosts& costs, const Placement& placement, std::int64_t shards,
         const ClusterModel& cluster, StepTasks& step, const Groups& groups, int worker)
      : costs_(costs),
        placement_(placement),
        all_shards_(shards),
        shape_(shape_of(costs, placement, shards, cluster.host_of_each(), worker)),
        seconds_(seconds_of(costs, shape_.segments)),
        buckets_(buckets_of(costs, shape_.segments)),
        times_(bucket_times(costs, shape_.segments, buckets_)),
        worker_(worker),
        tasks_(step.workers[static_cast<std::size_t>(worker)]),
        groups_(groups),
        speed_(cluster.speed) {}

  void write() {
    placement_.pipeline > 1 ? write_pipeline() : write_shards();
    if (!shape_.is_alone) give_buckets();
    commit();
  }

 private:
  void compute(std::vector<Task>& lane, Phase phase, double seconds, std::int64_t shard = -1) {
    lane.push_back(
        {.kind = Kind::compute, .phase = phase, .shard = shard, .seconds = seconds / speed_});
  }
  void computing(Phase phase, double seconds, std::int64_t shard = -1) {
    compute(tasks_.computing, phase, seconds, shard);
  }

  // What slices bring together in a pass, taken to be at its end.
  void meet(const SliceTransfers& slices) {
    if (slices.sums > 0)
      groups_.same_stage.join(tasks_.computing, slices_turn_++, Collective::Kind::sum,
                              slices.sum_bytes, slices.sums);
    if (slices.gathers > 0)
      groups_.same_stage.join(tasks_.computing, slices_turn_++, Collective::Kind::gather,
                              slices.gather_bytes, slices.gathers);
  }
  void forward(std::int64_t shard) {
    computing(Phase::forward, seconds_.forward, shard);
    meet(seconds_.forward_slices);
  }
  void backward(std::int64_t shard) {
    computing(Phase::backward, half_ * seconds_.backward, shard);
    meet(seconds_.backward_slices);
  }

  // Of the last shard, or of the last two side by side: buckets become ready on the way.
  void last_backward(std::int64_t shard, double times) {
    double done = 0.0;
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      computing(Phase::backward, times * (times_[b] - done), shard);
      done = times_[b];
      tasks_.computing.push_back({.kind = Kind::mark, .id = static_cast<std::int64_t>(b)});
    }
    computing(Phase::backward, times * (seconds_.backward - done), shard);
  }

  // The thread with the most of them.
  void write_shards() {
    const std::int64_t count = shape_.shards.hi - shape_.shards.lo;
    const std::int64_t own = (count + shape_.threads - 1) / shape_.threads;
    const std::int64_t at_end = shape_.takes_turns && own > 1 ? 2 : 1;
    for (std::int64_t shard = 0; shard < own - at_end; ++shard) {
      forward(shape_.shards.lo + shard);
      backward(shape_.shards.lo + shard);
    }
    for (std::int64_t shard = own - at_end; shard < own; ++shard) forward(shape_.shards.lo + shard);
    meet(seconds_.backward_slices);
    last_backward(shape_.shards.lo + own - 1, static_cast<double>(at_end));
  }

  std::int64_t message(int sender, std::int64_t shard, bool up) const {
    return (static_cast<std::int64_t>(sender) * all_shards_ + shard) * 2 + (up ? 1 : 0);
  }

  int below() const { return worker_ - placement_.tensor; }
  int above() const { return worker_ + placement_.tensor; }

  void write_pipeline() {
    const std::int64_t count = shape_.shards.hi - shape_.shards.lo;
    const Schedule schedule = make_schedule(placement_.schedule, placement_.pipeline, count);
    const auto& actions = schedule.stages[static_cast<std::size_t>(placement_.stage_of(worker_))];
    const bool again = placement_.recompute && most_under_way(actions) > 1;
    half_ = schedule.splits_backward ? 0.5 : 1.0;
    for (const Action& action : actions) act(action, again, action.shard + 1 == count);
  }

  void act(const Action& action, bool again, bool is_last) {
    const std::int64_t shard = shape_.shards.lo + action.shard;
    std::vector<Task>& lane = tasks_.computing;
    switch (action.kind) {
      case Action::Kind::receive_values:
        return lane.push_back({.kind = Kind::receive, .id = message(below(), shard, true)});
      case Action::Kind::receive_gradients:
        return lane.push_back({.kind = Kind::receive, .id = message(above(), shard, false)});
      case Action::Kind::send_values:
        return lane.push_back({.kind = Kind::send,
                               .bytes = static_cast<double>(boundary(shape_.segments.hi).bytes_up),
                               .peer = above(),
                               .id = message(worker_, shard, true)});
      case Action::Kind::send_gradients:
        return lane.push_back(
            {.kind = Kind::send,
             .bytes = static_cast<double>(boundary(shape_.segments.lo).bytes_down),
             .peer = below(),
             .id = message(worker_, shard, false)});
      case Action::Kind::forward: return forward(shard);
      case Action::Kind::backward:
        if (again) forward(shard);
        if (!is_last || half_ < 1.0) return backward(shard);
        meet(seconds_.backward_slices);
        return last_backward(shard, 1.0);
      case Action::Kind::weights:
        if (is_last) return last_backward(shard, 1.0 - half_);
        return computing(Phase::backward, (1.0 - half_) * seconds_.backward, shard);
    }
  }

  // The segment below the border before `segment`.
  const SegmentCost& boundary(std::int64_t segment) const {
    return costs_.segments[static_cast<std::size_t>(segment - 1)];
  }

  bool is_sharded() const { return placement_.shard_state > 0 && placement_.data > 1; }
  double owned_part() const { return is_sharded() ? 1.0 / placement_.data : 1.0; }
  double stage_floats() const {
    double floats = 0.0;
    for (const Bucket& bucket : buckets_) floats += static_cast<double>(bucket.floats);
    return floats;
  }
  double row_bytes(std::int64_t rows) const {
    return kVoteBytes + static_cast<double>(costs_.row_bytes) * static_cast<double>(rows);
  }

  void give_buckets() {
    std::vector<Task>& lane = shape_.has_exchange ? tasks_.exchange : tasks_.computing;
    const bool scatters = placement_.shard_state >= 2 && is_sharded() && !shape_.sums_in_place &&
                          placement_.algorithm == comm::Algorithm::tree;
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      const auto floats = static_cast<double>(buckets_[b].floats);
      if (shape_.has_exchange)
        lane.push_back({.kind = Kind::wait, .id = static_cast<std::int64_t>(b)});
      groups_.same_cell.join(lane, turn_++,
                             scatters ? Collective::Kind::scatter : Collective::Kind::sum,
                             4.0 * floats);
      if (!costs_.rule_is_local) continue;
      compute(lane, Phase::update, seconds_.update * owned_part() * floats / stage_floats());
      if (is_sharded())
        groups_.same_cell.join(lane, turn_++, Collective::Kind::gather, 4.0 * floats);
    }
    if (!shape_.has_exchange) return;
    const auto done = static_cast<std::int64_t>(buckets_.size());
    lane.push_back({.kind = Kind::mark, .id = done});
    tasks_.computing.push_back({.kind = Kind::wait, .id = done});
  }

  void update_all() { computing(Phase::update, seconds_.update * owned_part() / shape_.threads); }

  void commit() {
    std::vector<Task>& lane = tasks_.computing;
    const bool late = !costs_.rule_is_local;
    if (shape_.is_alone) {
      update_all();
    } else {
      if (late) talk(kVoteBytes, kVoteBytes);  // the norm
      if (late && is_sharded()) {
        update_all();
        groups_.same_cell.join(lane, turn_++, Collective::Kind::gather, 4.0 * stage_floats());
      }
      talk(row_bytes(shape_.shards.hi - shape_.shards.lo), row_bytes(all_shards_));
      if (late && !is_sharded()) update_all();
    }
    computing(Phase::update, seconds_.refresh / shape_.threads);
  }

  // With those of the same cell, then with the replica's other cells.
  void talk(double own, double all) {
    groups_.same_cell.join(tasks_.computing, turn_++, Collective::Kind::talk, own);
    groups_.replica.join(tasks_.computing, replica_turn_++, Collective::Kind::talk, all);
  }

  const StepCosts& costs_;
  const Placement& placement_;
  std::int64_t all_shards_;
  WorkerShape shape_;
  StageSeconds seconds_;
  std::vector<Bucket> buckets_;
  std::vector<double> times_;
  int worker_;
  WorkerTasks& tasks_;
  Groups groups_;
  double speed_;
  double half_ = 1.0;  // of a backward pass: what goes below, where weights come later
  std::size_t turn_ = 0, replica_turn_ = 0, slices_turn_ = 0;
};

void check_fits(const StepCosts& costs, const Placement& placement, std::int64_t shards,
                const ClusterModel& cluster) {
  if (placement.workers() != cluster.workers || cluster.hosts < 1 ||
      cluster.hosts > cluster.workers)
    throw InvalidArgument("simulate: {} has {} workers; the cluster has {} on {} hosts",
                          to_string(placement), placement.workers(), cluster.workers,
                          cluster.hosts);
  if (placement.data > shards)
    throw InvalidArgument("simulate: {} with {} shards: each replica computes at least one",
                          to_string(placement), shards);
  if (placement.pipeline > static_cast<int>(costs.segments.size()))
    throw InvalidArgument("simulate: {} with {} segments: each stage has at least one",
                          to_string(placement), costs.segments.size());
  if (placement.tensor > costs.slices)
    throw InvalidArgument("simulate: {} with {} slices: each worker has at least one",
                          to_string(placement), costs.slices);
}

// Subtrees of so many leaves that each of the parts has.
std::vector<int> subtrees_of(std::int64_t leaves, int parts) {
  std::vector<int> nodes;
  for (const ShardRange& range : deal_shards(leaves, parts))
    nodes.push_back(static_cast<int>(subtrees_in(leaves, range).size()));
  return nodes;
}

}  // namespace

StepTasks write_step(const StepCosts& costs, const Placement& placement, std::int64_t shards,
                     const ClusterModel& cluster) {
  check_fits(costs, placement, shards, cluster);
  StepTasks step;
  step.workers.resize(static_cast<std::size_t>(cluster.workers));
  std::vector<Group> cells, replicas, stages;
  for (int cell = 0; cell < placement.pipeline * placement.tensor; ++cell)
    cells.emplace_back(step, placement.same_cell(cell), subtrees_of(shards, placement.data),
                       placement.algorithm);
  for (int replica = 0; replica < placement.data; ++replica) {
    replicas.emplace_back(step, placement.whole_replica(replica), std::vector<int>(),
                          comm::Algorithm::tree);
    for (int stage = 0; stage < placement.pipeline; ++stage)
      stages.emplace_back(step, placement.same_stage(replica, stage),
                          subtrees_of(costs.slices, placement.tensor), comm::Algorithm::tree);
  }
  for (int worker = 0; worker < cluster.workers; ++worker) {
    const auto at = [&](std::vector<Group>& groups, int number) -> Group& {
      return groups[static_cast<std::size_t>(number)];
    };
    const int parts = placement.pipeline * placement.tensor;
    Writer(costs, placement, shards, cluster, step,
           {.same_cell = at(cells, worker % parts),
            .replica = at(replicas, placement.replica_of(worker)),
            .same_stage = at(stages, worker / placement.tensor)},
           worker)
        .write();
  }
  return step;
}

}  // namespace lockstep::parallel
