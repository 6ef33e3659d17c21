// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::parallel {

// gpipe: all forward passes, then all backward passes. one_f_one_b: as few shards under way as
// keep everybody busy, forward and backward in turns (Narayanan et al.: "PipeDream", 2019).
// zero_bubble: the gradients that the stage below waits for come first, those of weights when there
// is nothing else to do (Qi et al.: "Zero Bubble Pipeline Parallelism", 2023, schedule ZB-H1).
enum class ScheduleKind : std::uint8_t { gpipe, one_f_one_b, zero_bubble };

// "gpipe", "1f1b", "zero-bubble". Throws InvalidArgument, which lists them.
ScheduleKind parse_schedule(std::string_view name);
std::string_view to_string(ScheduleKind kind);

// What a stage does next with a shard. Values are received from below and sent above around a
// forward pass, the other way round a backward pass. Where the backward pass is split, `backward`
// makes what is sent, and `weights` the gradients of the stage's own parameters.
struct Action {
  enum class Kind : std::uint8_t {
    receive_values,
    forward,
    send_values,
    receive_gradients,
    backward,
    send_gradients,
    weights
  };
  Kind kind;
  std::int64_t shard;
  bool operator==(const Action&) const = default;
};

// A pipeline's step as data: what each stage does, in order. Stage 0 has the first segments.
struct Schedule {
  std::int64_t shards = 0;
  std::vector<std::vector<Action>> stages = {};
  bool splits_backward = false;
};

// Shards that any of its stages keeps under way, at most.
std::int64_t under_way_limit(ScheduleKind kind, int stages, std::int64_t shards);

// With `weights_at_once`, of a schedule that splits backward passes: a shard's two halves follow
// one another, so that nothing needs to be kept between them.
Schedule make_schedule(ScheduleKind kind, int stages, std::int64_t shards,
                       bool weights_at_once = false);

// Of a stage: the shards that are between their forward and the end of their backward pass at once,
// at most.
std::int64_t most_under_way(const std::vector<Action>& actions);

// Throws InvalidArgument, which names stage and action, unless: every stage runs each shard's
// forward and backward pass once, in this order and with its transfers; backward passes, and both
// halves of those that are split, run by ascending shards; both ends of a link have the same order;
// nobody waits for ever; and no stage has more shards under way than `limit` (0: none).
void verify(const Schedule& schedule, std::int64_t limit = 0);

// When each action of each stage begins and ends, if a stage's forward and backward passes take so
// long; a transfer takes no time of the stages and `transfer` on its way. Of a backward pass that
// is split, `weights_part` is the part of the weights' gradients.
struct StageTimes {
  double forward = 1.0, backward = 2.0;
  double weights_part = 0.5;
};
struct TimedAction {
  Action action;
  double begin = 0.0, end = 0.0;
};
struct Timeline {
  std::vector<std::vector<TimedAction>> stages;  // passes alone
  double seconds = 0.0;
  // The part of all stages' time in which they wait.
  double bubble() const;
};
// Throws as verify() does.
Timeline simulate(const Schedule& schedule, const std::vector<StageTimes>& times,
                  double transfer = 0.0);

// One line a stage, `columns` wide; and as a picture.
std::string timeline_text(const Timeline& timeline, int columns = 100);
std::string timeline_svg(const Timeline& timeline);

}  // namespace lockstep::parallel
