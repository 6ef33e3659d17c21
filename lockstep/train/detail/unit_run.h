// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "lockstep/base/thread_team.h"
#include "lockstep/train/detail/gradient_sums.h"
#include "lockstep/train/detail/weight_units.h"

namespace lockstep::train::detail {

struct UnitOptions {
  ShardRange range{};
  int threads = 1;
  std::size_t bucket_bytes = 0;
  // A segment's forward pass is computed again for its backward pass: a thread's shards have one
  // arena.
  bool recompute = false;
};

// The passes of a worker that shares the weights with others: segment by segment, each over all of
// the worker's shards while its weights are here and those of the next one come. A segment's
// gradients are given when its last shard has added to them, so that sums of one segment are kept
// at a time.
class UnitRun {
 public:
  // What is given outlives it.
  UnitRun(StepProgram& program, WeightUnits& units, kvstore::Synchronizer& synchronizer,
          GradientSums& sums, const UnitOptions& options);

  // `begin` gives an executable the shard's inputs and outputs, `receiver` takes its gradients.
  using Begin = std::function<void(StepExecutable& executable, std::int64_t shard)>;
  using Receivers = std::function<Executable::Receiver(int thread, std::int64_t shard)>;
  void run(ThreadTeam& team, const Begin& begin, const Receivers& receiver);

 private:
  // A stretch of a segment's floats that is given at once.
  struct Bucket {
    std::size_t offset = 0, count = 0;
  };
  void make_buckets(const kvstore::FlatLayout& layout, std::size_t bucket_bytes);
  StepExecutable& executable(int thread, std::int64_t shard);
  // Of each thread's shards, ascending.
  template <class Work>
  void for_shards(ThreadTeam& team, const Work& work);
  void give(std::size_t segment);

  StepProgram& program_;
  WeightUnits& units_;
  kvstore::Synchronizer& synchronizer_;
  GradientSums& sums_;
  UnitOptions options_;
  std::vector<std::vector<Bucket>> buckets_;  // by segment
};

}  // namespace lockstep::train::detail
