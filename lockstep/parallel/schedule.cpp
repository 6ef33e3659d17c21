// SPDX-License-Identifier: Apache-2.0
#include "lockstep/parallel/schedule.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "lockstep/base/error.h"

namespace lockstep::parallel {
namespace {

using Kind = Action::Kind;

// A stage's passes with the transfers that belong to them.
class Writer {
 public:
  Writer(int stage, int stages) : is_first_(stage == 0), is_last_(stage + 1 == stages) {}

  void forward(std::int64_t shard) {
    if (!is_first_) add(Kind::receive_values, shard);
    add(Kind::forward, shard);
    if (!is_last_) add(Kind::send_values, shard);
  }
  void backward(std::int64_t shard) {
    if (!is_last_) add(Kind::receive_gradients, shard);
    add(Kind::backward, shard);
    if (!is_first_) add(Kind::send_gradients, shard);
  }
  void weights(std::int64_t shard) { add(Kind::weights, shard); }
  std::vector<Action> take() { return std::move(actions_); }

 private:
  void add(Kind kind, std::int64_t shard) { actions_.push_back({kind, shard}); }
  bool is_first_, is_last_;
  std::vector<Action> actions_;
};

std::vector<Action> write_stage(ScheduleKind kind, int stage, int stages, std::int64_t shards) {
  Writer writer(stage, stages);
  const std::int64_t ahead =
      kind == ScheduleKind::gpipe ? shards : std::min<std::int64_t>(stages - 1 - stage, shards);
  for (std::int64_t shard = 0; shard < ahead; ++shard) writer.forward(shard);
  for (std::int64_t shard = 0; shard < shards; ++shard) {
    if (ahead + shard < shards) writer.forward(ahead + shard);
    writer.backward(shard);
    if (kind == ScheduleKind::zero_bubble) writer.weights(shard);
  }
  return writer.take();
}

// Plays a pipeline in which a forward pass and each half of a backward pass take one unit of time,
// and lets every stage do what it can do first: of what it can do at once a backward pass, else a
// forward pass while fewer shards are under way than may be, else gradients of weights. The order
// in which things happened is the schedule. The first stage sends no gradients, so that all of its
// backward pass is the second half.
class ZeroBubblePlay {
 public:
  ZeroBubblePlay(int stages, std::int64_t shards, std::int64_t limit)
      : shards_(shards), limit_(limit) {
    for (int s = 0; s < stages; ++s) stages_.emplace_back(s, stages, shards);
    for (double& time : stages_[0].values_at) time = 0.0;
  }

  std::vector<std::vector<Action>> play() {
    for (;;) {
      std::size_t who = 0;
      std::optional<Move> best;
      for (std::size_t s = 0; s < stages_.size(); ++s)
        if (const auto move = next_of(stages_[s]); move && (!best || move->begin < best->begin)) {
          best = move;
          who = s;
        }
      if (!best) break;
      make(who, *best);
    }
    std::vector<std::vector<Action>> written;
    for (Stage& stage : stages_) written.push_back(stage.writer.take());
    return written;
  }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  struct Move {
    Kind kind;
    double begin;
  };
  struct Stage {
    Stage(int stage, int stages, std::int64_t shards)
        : writer(stage, stages),
          is_first(stage == 0),
          values_at(static_cast<std::size_t>(shards), kNever),
          gradients_at(values_at) {}
    Writer writer;
    bool is_first;
    std::int64_t forward = 0, backward = 0, weights = 0;  // shards that are done
    double free = 0.0;
    std::vector<double> values_at, gradients_at;  // when they are there, by shard
  };

  // Of those that can begin first, the one that others wait for most.
  std::optional<Move> next_of(const Stage& stage) const {
    std::optional<Move> best;
    const auto offer = [&](Kind kind, double when) {
      const double begin = std::max(stage.free, when);
      if (begin < kNever && (!best || begin < best->begin)) best = {kind, begin};
    };
    if (stage.backward < stage.forward)
      offer(Kind::backward, stage.gradients_at[static_cast<std::size_t>(stage.backward)]);
    if (stage.forward < shards_ && stage.forward - stage.weights < limit_)
      offer(Kind::forward, stage.values_at[static_cast<std::size_t>(stage.forward)]);
    if (stage.weights < stage.backward) offer(Kind::weights, 0.0);
    return best;
  }

  void make(std::size_t who, const Move& move) {
    Stage& stage = stages_[who];
    const double halves = stage.is_first ? 2.0 : 1.0;
    if (move.kind == Kind::forward) {
      stage.free = move.begin + 1.0;
      const auto shard = static_cast<std::size_t>(stage.forward);
      if (who + 1 < stages_.size())
        stages_[who + 1].values_at[shard] = stage.free;
      else
        stage.gradients_at[shard] = stage.free;
      stage.writer.forward(stage.forward++);
    } else if (move.kind == Kind::backward) {
      stage.free = move.begin + 2.0 - halves;
      if (who > 0)
        stages_[who - 1].gradients_at[static_cast<std::size_t>(stage.backward)] = stage.free;
      stage.writer.backward(stage.backward++);
    } else {
      stage.free = move.begin + halves;
      stage.writer.weights(stage.weights++);
    }
  }

  std::int64_t shards_, limit_;
  std::vector<Stage> stages_;
};

struct NamedSchedule {
  std::string_view name;
  ScheduleKind kind;
};
constexpr NamedSchedule kSchedules[] = {{"1f1b", ScheduleKind::one_f_one_b},
                                        {"zero-bubble", ScheduleKind::zero_bubble},
                                        {"gpipe", ScheduleKind::gpipe}};

}  // namespace

ScheduleKind parse_schedule(std::string_view name) {
  for (const NamedSchedule& known : kSchedules)
    if (known.name == name) return known.kind;
  throw InvalidArgument("schedule '{}': expected 1f1b, zero-bubble or gpipe", name);
}

std::string_view to_string(ScheduleKind kind) {
  for (const NamedSchedule& known : kSchedules)
    if (known.kind == kind) return known.name;
  throw InternalError("a schedule without a name");
}

std::int64_t under_way_limit(ScheduleKind kind, int stages, std::int64_t shards) {
  return kind == ScheduleKind::gpipe ? shards : std::min<std::int64_t>(stages, shards);
}

Schedule make_schedule(ScheduleKind kind, int stages, std::int64_t shards, bool weights_at_once) {
  if (stages < 1 || shards < 1)
    throw InvalidArgument("schedule: {} stages with {} shards, expected 1 or more of both", stages,
                          shards);
  Schedule schedule{.shards = shards, .splits_backward = kind == ScheduleKind::zero_bubble};
  if (schedule.splits_backward && !weights_at_once) {
    schedule.stages = ZeroBubblePlay(stages, shards, under_way_limit(kind, stages, shards)).play();
    return schedule;
  }
  for (int stage = 0; stage < stages; ++stage)
    schedule.stages.push_back(write_stage(kind, stage, stages, shards));
  return schedule;
}

std::int64_t most_under_way(const std::vector<Action>& actions) {
  const bool is_split = std::any_of(actions.begin(), actions.end(), [](const Action& action) {
    return action.kind == Kind::weights;
  });
  std::int64_t now = 0, most = 0;
  for (const Action& action : actions) {
    if (action.kind == Kind::forward) most = std::max(most, ++now);
    if (action.kind == (is_split ? Kind::weights : Kind::backward)) --now;
  }
  return most;
}

}  // namespace lockstep::parallel
