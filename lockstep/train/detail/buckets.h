// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "lockstep/kvstore/synchronizer.h"
#include "lockstep/train/detail/gradient_sums.h"

namespace lockstep::train::detail {

// The worker's sums of a stretch of the layout, as they are given.
std::vector<kvstore::Synchronizer::Node> nodes_of(GradientSums& sums, std::size_t offset,
                                                  std::size_t count);

// Gradients on their way to the other workers: those that are made one after the other are given
// together, as soon as every thread has added its last leaf to them, while the backward pass goes
// on.
class Buckets {
 public:
  Buckets(const kvstore::FlatLayout& layout, GradientSums& sums, int threads,
          std::size_t bucket_bytes);

  std::size_t size() const { return buckets_.size(); }
  void begin();
  // By a computing thread, when its last leaf's gradient of the parameter is added.
  void parameter_is_ready(std::size_t parameter);
  // By a computing thread that failed: nobody waits for it any more.
  void give_up();
  // Bucket after bucket, until all are given or somebody gave up.
  void give(kvstore::Synchronizer& synchronizer);

 private:
  struct Bucket {
    std::int32_t parameters = 0;
    std::size_t offset = 0, count = 0;
  };
  bool wait_for(std::size_t bucket);

  GradientSums& sums_;
  int threads_;
  std::vector<Bucket> buckets_;
  std::vector<std::size_t> bucket_of_;                 // by parameter
  std::unique_ptr<std::atomic<std::int32_t>[]> left_;  // parameters times threads, by bucket
  std::atomic<bool> given_up_ = false;
};

}  // namespace lockstep::train::detail
