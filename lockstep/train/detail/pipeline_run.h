// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "lockstep/kvstore/mesh_links.h"
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

// One of a stage's threads, each of which is part of a pipeline of its own: with those of its
// number in the other stages it computes some of the shards.
struct PipelineThread {
  std::size_t number = 0, threads = 1;
  std::int64_t shards = 1;
};

// A stage's part of a step: the passes of its segments over a thread's shards, in the order of a
// schedule, and what goes between it and its neighbours.
class PipelineRun {
 public:
  // Makes as many executables as there are shards under way.
  PipelineRun(StepProgram& program, kvstore::MeshLinks& links, const PipelineOptions& options,
              const PipelineThread& thread);

  // Shards count from the thread's first here. `begin` gives an executable the shard's inputs and
  // outputs, `receiver` takes its gradients.
  using Begin = std::function<void(StepExecutable& executable, std::int64_t shard)>;
  using Receivers = std::function<Executable::Receiver(std::int64_t shard)>;
  void run(const Begin& begin, const Receivers& receiver);
  const WaitedTime& waited() const { return waited_; }

 private:
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
  kvstore::NeighbourLinks& links_;
  PipelineOptions options_;
  PipelineThread thread_;
  std::vector<parallel::Action> actions_;
  bool splits_backward_ = false;
  WaitedTime waited_;
  double waited_now_ = 0.0;  // in the step under way
  bool has_run_ = false;
  std::vector<Slot> slots_;
};

}  // namespace lockstep::train::detail
