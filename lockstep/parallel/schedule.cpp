// SPDX-License-Identifier: Apache-2.0
#include "lockstep/parallel/schedule.h"

#include <algorithm>

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
  }
  return writer.take();
}

}  // namespace

ScheduleKind parse_schedule(std::string_view name) {
  if (name == "gpipe") return ScheduleKind::gpipe;
  if (name == "1f1b") return ScheduleKind::one_f_one_b;
  throw InvalidArgument("schedule '{}': expected gpipe or 1f1b", name);
}

std::string_view to_string(ScheduleKind kind) {
  return kind == ScheduleKind::gpipe ? "gpipe" : "1f1b";
}

Schedule make_schedule(ScheduleKind kind, int stages, std::int64_t shards) {
  if (stages < 1 || shards < 1)
    throw InvalidArgument("schedule: {} stages with {} shards, expected 1 or more of both", stages,
                          shards);
  Schedule schedule{.shards = shards};
  for (int stage = 0; stage < stages; ++stage)
    schedule.stages.push_back(write_stage(kind, stage, stages, shards));
  return schedule;
}

std::int64_t most_under_way(const std::vector<Action>& actions) {
  std::int64_t now = 0, most = 0;
  for (const Action& action : actions) {
    if (action.kind == Kind::forward) most = std::max(most, ++now);
    if (action.kind == Kind::backward) --now;
  }
  return most;
}

}  // namespace lockstep::parallel
