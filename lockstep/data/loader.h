// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/data/dataset.h"
#include "lockstep/data/sampler.h"
#include "lockstep/data/transform.h"

namespace lockstep::data {

struct LoaderOptions {
  Transform transform = {};      // of each sample's first field; none: as it is
  std::uint64_t seed = 0;        // of the transforms' draws, keyed by (seed, step, shard, place)
  int threads = 1;               // 0: the caller's own
  std::int64_t prefetch = 4;     // steps made ahead
  std::int64_t first_shard = 0;  // the shards that this process wants ...
  std::int64_t shards = -1;      // ... and how many; -1: all
  bool told = false;             // makes what expect() says, instead of one step after the other
  // A sample that is Corrupt is replaced by the next good one of the set, and on_bad told why: by
  // the thread that calls step(), in the batch's order. Else step() throws it.
  bool skip_bad = false;
  std::function<void(const std::string& message)> on_bad = {};
};

// Makes the batches of a training run ahead of the step that needs them. What it returns is a
// function of its arguments, never of threads or timing.
class Loader {
 public:
  Loader(DatasetPtr dataset, ShardSampler sampler, LoaderOptions options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The batches of step `step`, one for each wanted shard. Steps are asked for in order; another
  // one than the next throws away what was made ahead. Rethrows what making a sample threw.
  std::vector<Fields> step(std::int64_t step);
  std::int64_t steps_per_epoch() const;

  // Of a loader that is told: take() will want the shards of step `step` from `first_shard` on.
  // They are made from now on, in the order of telling, and taken in that order.
  void expect(std::int64_t step, std::int64_t first_shard);
  std::vector<Fields> take();
  // What was expected is not wanted any more.
  void forget();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The samples as one batch, the transform's words of sample k from use number k * uses on. For what
// needs no loader: evaluation, a look at the data.
Fields load_batch(const Dataset& dataset, std::span<const std::int64_t> indices,
                  const Transform& transform = {}, const RandomKey& key = {});

}  // namespace lockstep::data
