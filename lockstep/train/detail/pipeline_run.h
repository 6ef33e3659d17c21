// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "lockstep/kvstore/stage_links.h"
#include "lockstep/parallel/schedule.h"
#include "lockstep/train/detail/step_program.h"
#include "lockstep/train/step_cost.h"

namespace lockstep::train::detail {

struct PipelineOptions {
  parallel::ScheduleKind schedule = parallel::ScheduleKind::one_f_one_b;
  // A shard's forward pass is computed again for its backward pass: one arena serves all shards
  // that are under way.
  bool recompute = false;
};

// A stage's part of a step: the passes of its segments over the pipeline's shards, in the order of
// a schedule, and what goes between it and its neighbours.
class PipelineRun {
 public:
  // Of so many shards. Makes as many executables as there are shards under way.
  PipelineRun(StepProgram& program, kvstore::StageLinks& links, const PipelineOptions& options,
              std::int64_t shards);

  // Shards count from 0 here. `begin` gives an executable the shard's inputs and outputs,
  // `receiver` takes its gradients.
  using Begin = std::function<void(StepExecutable& executable, std::int64_t shard)>;
  using Receivers = std::function<Executable::Receiver(std::int64_t shard)>;
  void run(const Begin& begin, const Receivers& receiver);
  const WaitedTime& waited() const { return waited_; }

 private:
  using Parts = kvstore::StageLinks::Parts;
  // What computes a shard from its forward to its backward pass.
  struct Slot {
    std::vector<comm::WorkPtr> sending;
  };
  std::size_t slot_of(std::int64_t shard) const;
  StepExecutable& executable(std::int64_t shard);
  void wait_for_sent(Slot& slot);
  template <class Wait>
  void waiting(const Wait& wait);
  void act(const parallel::Action& action, const Begin& begin, const Receivers& receiver);

  StepProgram& program_;
  kvstore::StageLinks& links_;
  PipelineOptions options_;
  std::vector<parallel::Action> actions_;
  bool splits_backward_ = false;
  WaitedTime waited_;
  double waited_now_ = 0.0;  // in the step under way
  bool has_run_ = false;
  std::vector<Slot> slots_;
};

}  // namespace lockstep::train::detail
