// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/parallel/schedule.h"

namespace lockstep::parallel {
namespace {

using Kind = Action::Kind;

std::string text_of(const Action& action) {
  static constexpr const char* kNames[] = {
      "receives the values of",         "runs forward",  "sends the values of",
      "receives the gradients of",      "runs backward", "sends the gradients of",
      "makes the weights' gradients of"};
  return fmt::format("{} shard {}", kNames[static_cast<int>(action.kind)], action.shard);
}

// What a stage does with one shard, in this order.
std::vector<Kind> expected_of(const Schedule& schedule, std::size_t stage) {
  const std::size_t stages = schedule.stages.size();
  std::vector<Kind> kinds;
  if (stage > 0) kinds.push_back(Kind::receive_values);
  kinds.push_back(Kind::forward);
  if (stage + 1 < stages) {
    kinds.push_back(Kind::send_values);
    kinds.push_back(Kind::receive_gradients);
  }
  kinds.push_back(Kind::backward);
  if (stage > 0) kinds.push_back(Kind::send_gradients);
  if (schedule.splits_backward) kinds.push_back(Kind::weights);
  return kinds;
}

void check_stage(const Schedule& schedule, std::size_t stage) {
  const std::vector<Kind> expected = expected_of(schedule, stage);
  std::map<std::int64_t, std::size_t> done;  // by shard
  std::map<Kind, std::int64_t> last;         // shard
  for (const Action& action : schedule.stages[stage]) {
    std::size_t& next = done[action.shard];
    if (action.shard < 0 || action.shard >= schedule.shards || next >= expected.size() ||
        expected[next] != action.kind)
      throw InvalidArgument("schedule: stage {} {} out of turn", stage, text_of(action));
    ++next;
    if (action.kind != Kind::backward && action.kind != Kind::weights) continue;
    const auto before = last.try_emplace(action.kind, -1).first;
    if (action.shard < before->second)
      throw InvalidArgument("schedule: stage {} {} after shard {}: expected ascending shards",
                            stage, text_of(action), before->second);
    before->second = action.shard;
  }
  for (std::int64_t shard = 0; shard < schedule.shards; ++shard)
    if (done[shard] < expected.size())
      throw InvalidArgument("schedule: stage {} does not finish shard {}", stage, shard);
}

std::vector<std::int64_t> shards_of(const std::vector<Action>& actions, Kind kind) {
  std::vector<std::int64_t> shards;
  for (const Action& action : actions)
    if (action.kind == kind) shards.push_back(action.shard);
  return shards;
}

// What is sent first arrives first.
void check_link(const Schedule& schedule, std::size_t from, Kind sent, std::size_t to,
                Kind received) {
  const auto a = shards_of(schedule.stages[from], sent);
  const auto b = shards_of(schedule.stages[to], received);
  if (a == b) return;
  const auto place = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  throw InvalidArgument("schedule: stage {} {}, where stage {} {}", from,
                        text_of({sent, *place.first}), to, text_of({received, *place.second}));
}

double seconds_of(const StageTimes& own, Kind pass, bool is_split) {
  if (pass == Kind::forward) return own.forward;
  if (pass == Kind::weights) return own.backward * own.weights_part;
  return own.backward * (is_split ? 1.0 - own.weights_part : 1.0);
}

}  // namespace

// Passes take their time, sending takes none, receiving waits for what was sent.
Timeline simulate(const Schedule& schedule, const std::vector<StageTimes>& times, double transfer) {
  const std::size_t stages = schedule.stages.size();
  check(times.size() == stages, "times of another number of stages");
  Timeline timeline;
  timeline.stages.resize(stages);
  std::vector<std::size_t> next(stages, 0);
  std::vector<double> now(stages, 0.0);
  std::map<std::pair<std::size_t, std::int64_t>, double> values, gradients;  // by stage that sends
  const auto arrival = [&](std::size_t stage, const Action& action) -> std::optional<double> {
    const bool is_value = action.kind == Kind::receive_values;
    const auto& sent = is_value ? values : gradients;
    const auto found = sent.find({is_value ? stage - 1 : stage + 1, action.shard});
    if (found == sent.end()) return std::nullopt;
    return found->second + transfer;
  };
  const auto run_one = [&](std::size_t stage) {
    const Action& action = schedule.stages[stage][next[stage]];
    switch (action.kind) {
      case Kind::receive_values:
      case Kind::receive_gradients: {
        const auto when = arrival(stage, action);
        if (!when) return false;
        now[stage] = std::max(now[stage], *when);
        break;
      }
      case Kind::send_values: values[{stage, action.shard}] = now[stage]; break;
      case Kind::send_gradients: gradients[{stage, action.shard}] = now[stage]; break;
      case Kind::forward:
      case Kind::backward:
      case Kind::weights: {
        const double begin = now[stage];
        now[stage] += seconds_of(times[stage], action.kind, schedule.splits_backward);
        timeline.stages[stage].push_back({action, begin, now[stage]});
        break;
      }
    }
    ++next[stage];
    return true;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t stage = 0; stage < stages; ++stage)
      while (next[stage] < schedule.stages[stage].size() && run_one(stage)) moved = true;
  }
  for (std::size_t stage = 0; stage < stages; ++stage)
    if (next[stage] < schedule.stages[stage].size())
      throw InvalidArgument("schedule: would wait for ever where stage {} {}", stage,
                            text_of(schedule.stages[stage][next[stage]]));
  timeline.seconds = *std::max_element(now.begin(), now.end());
  return timeline;
}

void verify(const Schedule& schedule, std::int64_t limit) {
  if (schedule.stages.empty()) throw InvalidArgument("schedule: has no stages");
  for (std::size_t stage = 0; stage < schedule.stages.size(); ++stage) {
    check_stage(schedule, stage);
    const std::int64_t most = most_under_way(schedule.stages[stage]);
    if (limit > 0 && most > limit)
      throw InvalidArgument("schedule: stage {} has {} shards under way, the limit is {}", stage,
                            most, limit);
  }
  for (std::size_t stage = 0; stage + 1 < schedule.stages.size(); ++stage) {
    check_link(schedule, stage, Kind::send_values, stage + 1, Kind::receive_values);
    check_link(schedule, stage + 1, Kind::send_gradients, stage, Kind::receive_gradients);
  }
  simulate(schedule, std::vector<StageTimes>(schedule.stages.size()));
}

}  // namespace lockstep::parallel
