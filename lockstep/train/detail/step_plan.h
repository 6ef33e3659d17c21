// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include "lockstep/data/dataset.h"
#include "lockstep/kvstore/synchronizer.h"
#include "lockstep/train/detail/buckets.h"
#include "lockstep/train/detail/gradient_sums.h"
#include "lockstep/train/detail/pipeline_run.h"
#include "lockstep/train/detail/row_gradients.h"
#include "lockstep/train/detail/slice_meeting.h"
#include "lockstep/train/detail/step_meeting.h"
#include "lockstep/train/detail/step_program.h"
#include "lockstep/train/detail/unit_run.h"

namespace lockstep::train::detail {

struct PlanOptions {
  std::int64_t shards = 1;
  ShardRange range{};  // of this worker
  int threads = 1;
  std::uint64_t seed = 0;
  std::size_t bucket_bytes = 0;
  kvstore::Group* group = nullptr;      // of the workers, where shards meet
  kvstore::MeshLinks* links = nullptr;  // of a worker that has a stage, or some of the slices
  PipelineOptions pipeline = {};
  WeightUnits* units = nullptr;  // of workers that share the weights
};

// How this worker computes its shards in one membership: which of them, by which threads, where
// their sums and outputs are, and how gradients are given. Made anew when the membership changes.
class StepPlan {
 public:
  StepPlan(StepProgram& program, kvstore::Synchronizer& synchronizer, const PlanOptions& options);

  const ShardRange& range() const { return options_.range; }
  ThreadTeam& team() { return team_; }
  std::size_t bytes() const { return sums_.bytes(); }
  WaitedTime waited() const;

  // Forward and backward passes of this worker's shards; all their gradients are given.
  void compute(std::int64_t step, std::span<const data::Fields> shards);
  // Whether this worker's losses and sums are.
  bool is_finite() const;

  // A row of outputs for each shard of the step, of which those of this worker are filled in by
  // fill_rows().
  std::span<float> rows() { return rows_; }
  void fill_rows();
  // How long each worker's passes took; its own range is one of `ranges`, by rank.
  std::vector<double> seconds_of(std::span<const ShardRange> ranges) const;
  // When those of this worker were done.
  std::chrono::steady_clock::time_point computed_at() const { return computed_at_; }
  // Over all shards, by the canonical tree.
  double mean_of(std::size_t column) const;
  const std::vector<Tensor>& mean_statistics();

  // A shard's inputs of its executable: the fields and the key of its draws.
  std::vector<Tensor> inputs(std::size_t own, std::span<const data::Fields> shards) const;
  void set_keys(std::int64_t step);
  std::vector<Tensor>& outputs(std::size_t own) {
    fit_outputs();
    return outputs_[own];
  }
  // Whether this worker's own sums of the parameter, or of the table, are finite.
  bool is_finite_here(const kvstore::FlatParameter& parameter);
  bool is_finite_here(std::size_t table) const { return row_gradients_.is_finite(table); }

 private:
  void make_pipelines();
  void make_outputs();
  void fit_outputs();
  std::size_t first_ids() const { return program_.step().ids_output(0); }
  static PlanOptions with_shard_threads(PlanOptions options, const StepProgram& program);
  bool streams() const;
  bool takes_turns(int thread) const;
  void compute_dense(std::span<const data::Fields> shards);
  void run_units(std::span<const data::Fields> shards);
  void run_thread(int thread, std::span<const data::Fields> shards);
  void run_shards(int thread, std::span<const data::Fields> shards);
  void take_lookups(int thread);
  void begin_shard(StepExecutable& executable, std::int64_t shard,
                   std::span<const data::Fields> shards);
  Executable::Receiver receiver(int thread, std::int64_t shard);
  void stream(int thread, std::int64_t shard, std::size_t parameter, const float* values);
  void give_pieces();
  bool losses_are_finite() const;
  StepExecutable& second(int thread);

  StepProgram& program_;
  kvstore::Synchronizer& synchronizer_;
  PlanOptions options_;
  GradientSums sums_;
  RowGradients row_gradients_;
  std::vector<std::unique_ptr<PipelineRun>> pipelines_;  // by thread; none: shards are whole
  std::unique_ptr<UnitRun> units_;                       // null: this worker's weights are here
  std::unique_ptr<StepMeeting> meeting_;                 // null: no shard needs another one
  std::vector<std::unique_ptr<LinkedSlices>> slices_;    // by thread; none: all slices are here
  std::unique_ptr<Buckets> buckets_;                     // null: pieces are given
  ThreadTeam team_;                                      // the computing threads
  std::unique_ptr<ThreadTeam> beside_;                   // the caller's, and one that gives buckets

  // By shard of our own: loss, accuracy, updates, lookups.
  std::vector<std::vector<Tensor>> outputs_;
  std::vector<Tensor> keys_;  // by shard of our own
  std::vector<float> rows_;
  std::size_t row_size_ = 0;  // outputs, and the seconds that the worker's passes took
  std::chrono::steady_clock::time_point computed_at_ = {};
  float compute_seconds_ = 0.0F;
  std::vector<Tensor> statistics_;
};

}  // namespace lockstep::train::detail
