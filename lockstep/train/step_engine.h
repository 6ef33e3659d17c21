// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/data/dataset.h"
#include "lockstep/graph/executable.h"
#include "lockstep/kvstore/synchronizer.h"
#include "lockstep/nn/block.h"
#include "lockstep/optim/optimizer.h"
#include "lockstep/parallel/schedule.h"
#include "lockstep/train/same_bits.h"
#include "lockstep/train/snapshot.h"
#include "lockstep/train/step_cost.h"
#include "lockstep/train/step_graph.h"

namespace lockstep::train {

struct EngineOptions {
  std::int64_t shards = 8;
  int threads = 1;
  std::uint64_t seed = 0;
  CompileOptions compile = {};  // the engine sets states and deliveries itself
  // How the workers of a job have the same weights; each computes its range of the shards. Null:
  // this process computes all. It outlives the engine.
  kvstore::Mode* mode = nullptr;
  std::size_t bucket_bytes = 4 << 20;  // gradients that travel together
  FieldRoles fields = {};              // of a batch; none: an input and a label
  // Names of the net's blocks that begin segments, which are compiled apart
  // (docs/model_parallel.md).
  std::vector<std::string> cuts = {};
  // Parts that layers are computed as which can be split, and how they are (train/mesh.h).
  std::int64_t slices = 1;
  std::vector<Split> splits = {};
  // Of workers that have a stage of the net each.
  parallel::ScheduleKind schedule = parallel::ScheduleKind::one_f_one_b;
  bool recompute = false;
};

// Means over the global batch, summed over shards by the canonical tree.
struct StepResult {
  double loss = 0.0;
  double accuracy = 0.0;  // 0 where there is none: see has_accuracy
  bool finite = true;     // false: the loss or a gradient was NaN or infinite; nothing has changed
  bool stop = false;      // some worker wishes to stop after this step
  bool pause = false;     // some worker wishes to come out of the generation after this step
  std::optional<StepCost> cost = {};  // of several workers
};

// What a worker wishes after a step: all workers hear of it in the result.
struct StepWishes {
  bool stop = false, pause = false;
};

// A sample that cannot be trained on.
struct BadSample {
  std::int64_t shard = 0;  // from this worker's first
  std::int64_t row = 0;    // of the shard's batch
  std::string reason = {};
};

// Throws InvalidArgument unless each worker and thread can have a shard to compute.
void check_shares(std::int64_t shards, int threads, int workers);

// A step of data-parallel training: every shard's forward and backward pass by one thread,
// gradients added in the canonical tree order, the update rule. Its result is a function of the
// net, the batch, the step's number and the seed; never of the number of threads and workers. It
// happens whole or not at all: one that throws leaves the state of the step before.
class StepEngine {
 public:
  // `fields` are the infos of one shard's batch, whose roles the options tell. The shards are
  // computed on their device; batches, sums and weights stay on the host. The net, and a loss with
  // parameters, must be initialised; shapes not known yet are told by tracing.
  StepEngine(nn::BlockPtr net, LossFunction loss, optim::OptimizerPtr optimizer,
             const std::vector<TensorInfo>& fields, const EngineOptions& options);
  ~StepEngine();

  // One step on the batches of this worker's shards, which have one shape. It may be another than
  // that of `fields`: the step is compiled for each, over the same weights and in the same memory,
  // and CompileOptions::plans of them stay. `step` counts from 0 and keys what is drawn.
  StepResult run(std::int64_t step, double learning_rate, std::span<const data::Fields> shards,
                 const StepWishes& wishes = {});

  // Goes on in another membership, with the weights, what the rule keeps and what this worker has
  // not sent as they are. Where that throws (a peer was lost again), the state is as it was, and
  // the engine waits for another membership. The mode outlives the engine.
  void replan(kvstore::Mode& mode);
  // The same with another number of shards in a step.
  void replan(kvstore::Mode& mode, std::int64_t shards);

  // After replan(), when all workers have the state of so many steps: servers come to the same.
  void align(std::int64_t steps);
  // What a worker of the same membership has: servers have it already.
  void take_over(const nn::Block& net, const std::vector<std::pair<std::string, Tensor>>& slots);

  // Takes the newest weights that servers have, where this worker is not in step with the others.
  void pull();
  // The running statistics, one after the other, which servers know nothing of.
  std::vector<float> statistics() const;
  void set_statistics(std::span<const float> values);

  // Parameters and running statistics live in the engine between steps; these copy them into the
  // net and back.
  void store(nn::Block& net) const;
  void load(const nn::Block& net);
  // A parameter that is here, by its number in the net's list.
  Tensor parameter(std::size_t number) const;
  // Every worker calls it, between steps, before rank 0 takes a snapshot or asks for slots: those
  // that are with others come there. Elsewhere there are none to be had where they are shared.
  void collect_slots();
  // This worker's parameters and slots, in plain layout, in the order of the names. They are
  // copies. With `keep` false it only takes part where others need it to.
  Snapshot snapshot(bool keep = true) const;
  // The same without what servers keep.
  Snapshot own_snapshot() const;
  // What the rule keeps: "slot0/fc1.weight".
  std::vector<std::pair<std::string, Tensor>> slots() const;
  // Throws Corrupt when a name is missing or a shape differs.
  void set_slots(const std::vector<std::pair<std::string, Tensor>>& slots);
  // What all workers have not sent of their gradients yet: "residual1/fc1.weight", as slots() are.
  // At rank 0, nothing elsewhere and where everything is sent. Every worker calls it.
  std::vector<std::pair<std::string, Tensor>> residuals();
  // Worker r takes those of the workers r, r + W, r + 2 W ... that there were. Throws Corrupt as
  // set_slots does.
  void set_residuals(const std::vector<std::pair<std::string, Tensor>>& residuals);
  // Of all parameters, running statistics included: names sorted, plain layout, little-endian.
  std::string params_sha256() const;

  // Computes the shards again and names the first op that makes a NaN or an infinity, or the
  // parameter or the data that has one; empty when all is finite.
  std::string find_bad_op(std::int64_t step, std::span<const data::Fields> shards);
  // After a step that threw InvalidArgument: the first sample that alone makes an op do so, in the
  // op's words; none where no single one does.
  std::optional<BadSample> find_refused_sample(std::int64_t step,
                                               std::span<const data::Fields> shards);
  // After a step that was not finite: the first parameter whose gradient is finite here, but not
  // when it has been sent and added to the others'; empty when there is none.
  std::string find_bad_sum() const;

  // What this worker makes of fixed input, to compare with the others'.
  Probe probe();

  // Whether this worker has a part of the parameters alone: a stage of the net, or its own pieces
  // of them. Then every worker calls store(), snapshot(), params_sha256() and probe() together with
  // the others.
  bool is_partial() const;
  // Of a pipeline's worker; nothing elsewhere.
  WaitedTime waited() const;
  // Of a net that is cut: the blocks that begin segments, in the order of their calls; and by
  // parameter the segment that has it, where layers are not split.
  const std::vector<std::string>& cuts() const;
  std::vector<std::int32_t> segments_of_parameters() const;
  // The roles of a batch's fields, with their names.
  const FieldRoles& fields() const;
  // Whether a shard needs the others of its step (ops/shard_ops.h).
  bool shards_meet() const;
  // Whether the loss tells what is right.
  bool has_accuracy() const;
  // Of one shard, the smallest first.
  const std::vector<BatchNormSize>& batch_norm_sizes() const;
  std::int64_t shards() const;
  // The shards that this worker computes.
  ShardRange range() const;
  int threads() const;
  double flops_per_sample() const;
  std::size_t step_bytes() const;
  // Of the last step's shape; of a net that is cut, its first segment's.
  const Executable& executable() const;
  // Shapes that are compiled now.
  std::size_t plans() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::train
