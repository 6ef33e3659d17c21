// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "lockstep/kvstore/exchange.h"
#include "lockstep/train/detail/gradient_sums.h"
#include "lockstep/train/detail/update.h"

namespace lockstep::train::detail {

// Gradients on their way to the other workers: slices that are made one after the other travel
// together, as soon as every thread has added its last leaf to them, while the backward pass goes
// on.
class Buckets {
 public:
  // With `in_place` the sum over all workers takes the place of this worker's own, its only node.
  Buckets(const FlatLayout& layout, GradientSums& sums, kvstore::Exchange& exchange,
          std::int64_t shards, int threads, std::size_t bucket_bytes, bool in_place);

  // Places of the flat buffers that belong to no parameter: in order.
  void set_unused(std::vector<std::size_t> places) { unused_ = std::move(places); }

  void begin();
  // By a computing thread, when its last leaf's gradient of the slice is added.
  void slice_is_ready(std::size_t slice);
  // By a computing thread that failed: nobody waits for it any more.
  void give_up();
  // Whether a thread of its own should exchange, while the others compute: there is something to
  // compute meanwhile, and the exchange waits for a link, or for other threads of this worker. An
  // exchange in memory takes the computing thread's own core, whoever does it.
  bool goes_beside() const;
  // Sums up bucket after bucket and updates what can be updated then.
  void exchange(const Update& update, const optim::UpdateContext& context);

  const float* total() const { return total_; }
  std::size_t buffers() const { return own_total_ ? 1 : 0; }
  bool is_finite() const { return finite_; }

 private:
  struct Bucket {
    std::size_t first_slice = 0, end_slice = 0;
    std::size_t offset = 0, count = 0;
    std::vector<Piece> pieces = {};
  };
  bool wait_for(std::size_t bucket);
  void sum(const Bucket& bucket);
  void clear_unused(const Bucket& bucket);
  void update_pieces(const Bucket& bucket, const Update& update,
                     const optim::UpdateContext& context);

  const FlatLayout& layout_;
  GradientSums& sums_;
  kvstore::Exchange& exchange_;
  std::int64_t shards_;
  int threads_;
  std::optional<FlatBuffer> own_total_;
  float* total_;
  std::vector<Bucket> buckets_;
  std::vector<std::size_t> unused_;
  std::vector<std::size_t> bucket_of_;                 // by slice
  std::unique_ptr<std::atomic<std::int32_t>[]> left_;  // slices times threads, by bucket
  std::atomic<bool> given_up_ = false;
  bool finite_ = true;
};

}  // namespace lockstep::train::detail
