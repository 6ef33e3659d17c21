// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/detail/pipeline_run.h"

#include <chrono>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/train/detail/tensor_parts.h"

namespace lockstep::train::detail {
namespace {

using Kind = parallel::Action::Kind;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

PipelineRun::PipelineRun(StepProgram& program, kvstore::MeshLinks& links,
                         const PipelineOptions& options, const PipelineThread& thread)
    : program_(program),
      links_(links.neighbours(thread.number)),
      options_(options),
      thread_(thread) {
  parallel::Schedule schedule =
      parallel::make_schedule(options.schedule, links.stages(), thread.shards, options.recompute);
  parallel::verify(schedule,
                   parallel::under_way_limit(options.schedule, links.stages(), thread.shards));
  splits_backward_ = schedule.splits_backward;
  actions_ = std::move(schedule.stages[static_cast<std::size_t>(links.stage())]);
  slots_.resize(static_cast<std::size_t>(parallel::most_under_way(actions_)));
  program.make_executables(slots_.size() * thread.threads, options.recompute ? thread.threads : 0);
}

// Backward passes run by ascending shards, so that the oldest under way ends first.
std::size_t PipelineRun::slot_of(std::int64_t shard) const {
  return static_cast<std::size_t>(shard) % slots_.size();
}

// Those of a thread are as far apart as there are threads: with recompute each has an arena of its
// own, which its shards have in common.
StepExecutable& PipelineRun::executable(std::int64_t shard) {
  return program_.executable(slot_of(shard) * thread_.threads + thread_.number);
}

void PipelineRun::wait_for_sent(Slot& slot) {
  for (const comm::WorkPtr& work : slot.sending) work->wait();
  slot.sending.clear();
}

// The first step waits for whoever compiles.
void PipelineRun::run(const Begin& begin, const Receivers& receiver) {
  const Clock::time_point start = Clock::now();
  waited_now_ = 0.0;
  for (const parallel::Action& action : actions_) act(action, begin, receiver);
  waiting([&] {
    for (Slot& slot : slots_) wait_for_sent(slot);
  });
  if (!std::exchange(has_run_, true)) return;
  waited_.seconds += waited_now_;
  waited_.of_seconds += seconds_since(start);
}

template <class Wait>
void PipelineRun::waiting(const Wait& wait) {
  const Clock::time_point start = Clock::now();
  wait();
  waited_now_ += seconds_since(start);
}

void PipelineRun::act(const parallel::Action& action, const Begin& begin,
                      const Receivers& receiver) {
  StepExecutable& own = executable(action.shard);
  Slot& slot = slots_[slot_of(action.shard)];
  switch (action.kind) {
    case Kind::receive_values:
      return waiting([&] {
        wait_for_sent(slot);  // of the shard before
        links_.receive_from_below(bytes_of(own.from_below()));
      });
    case Kind::forward:
      wait_for_sent(slot);
      begin(own, action.shard);
      return own.run_forward();
    case Kind::send_values:
      slot.sending.push_back(links_.start_sending_above(bytes_of(own.to_above())));
      return;
    case Kind::receive_gradients:
      return waiting([&] { links_.receive_from_above(bytes_of(own.from_above())); });
    case Kind::backward: {
      const bool again = options_.recompute && slots_.size() > 1;
      if (again) wait_for_sent(slot);  // it is written where it was sent from
      if (splits_backward_) return own.run_backward_of_inputs(again);
      return own.run_backward(again, receiver(action.shard));
    }
    case Kind::weights: return own.run_backward_of_weights(receiver(action.shard));
    case Kind::send_gradients:
      slot.sending.push_back(links_.start_sending_below(bytes_of(own.to_below())));
      return;
  }
}

}  // namespace lockstep::train::detail
