// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/detail/buckets.h"

#include <algorithm>

#include "lockstep/train/tree_sum.h"

namespace lockstep::train::detail {

Buckets::Buckets(const FlatLayout& layout, GradientSums& sums, kvstore::Exchange& exchange,
                 std::int64_t shards, int threads, std::size_t bucket_bytes, bool in_place)
    : layout_(layout), sums_(sums), exchange_(exchange), shards_(shards), threads_(threads) {
  if (!in_place) own_total_.emplace(layout.floats);
  total_ = in_place ? sums.first_node() : own_total_->data();
  for (std::size_t s = 0; s < layout.slices.size(); ++s) {
    const Slice& slice = layout.slices[s];
    if (buckets_.empty() || buckets_.back().count * sizeof(float) >= bucket_bytes)
      buckets_.push_back({s, s, slice.offset, 0});
    Bucket& bucket = buckets_.back();
    bucket.end_slice = s + 1;
    bucket.count = slice.offset + slice.count - bucket.offset;
    bucket_of_.push_back(buckets_.size() - 1);
  }
  for (Bucket& bucket : buckets_)
    bucket.pieces = layout.pieces(bucket.first_slice, bucket.end_slice);
  left_ = std::make_unique<std::atomic<std::int32_t>[]>(buckets_.size());
}

bool Buckets::goes_beside() const {
  return buckets_.size() > 1 && (threads_ > 1 || exchange_.waits_for_links());
}

void Buckets::begin() {
  given_up_ = false;
  finite_ = true;
  for (std::size_t b = 0; b < buckets_.size(); ++b)
    left_[b] =
        static_cast<std::int32_t>(buckets_[b].end_slice - buckets_[b].first_slice) * threads_;
}

void Buckets::slice_is_ready(std::size_t slice) {
  std::atomic<std::int32_t>& left = left_[bucket_of_[slice]];
  if (left.fetch_sub(1, std::memory_order_acq_rel) == 1) left.notify_all();
}

void Buckets::give_up() {
  given_up_ = true;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    left_[b] = 0;
    left_[b].notify_all();
  }
}

// The computing threads always end: each slice becomes ready, or somebody gives up.
bool Buckets::wait_for(std::size_t bucket) {
  for (std::int32_t left = left_[bucket]; left > 0; left = left_[bucket]) left_[bucket].wait(left);
  return !given_up_;
}

void Buckets::sum(const Bucket& bucket) {
  std::vector<kvstore::Exchange::Node> nodes;
  for (std::size_t n = 0; n < sums_.nodes().size(); ++n)
    nodes.push_back({sums_.nodes()[n], {sums_.node(n, bucket.offset, bucket.count), bucket.count}});
  exchange_.sum(nodes, shards_, bucket.offset, {total_ + bucket.offset, bucket.count});
  clear_unused(bucket);
}

// Compressed gradients may say something where there is nothing; it would grow there.
void Buckets::clear_unused(const Bucket& bucket) {
  const std::span<float> residual = exchange_.residual(unused_.empty() ? 0 : layout_.floats);
  if (residual.empty()) return;
  const std::size_t end = bucket.offset + bucket.count;
  for (auto place = std::lower_bound(unused_.begin(), unused_.end(), bucket.offset);
       place != unused_.end() && *place < end; ++place)
    residual[*place] = total_[*place] = 0.0F;
}

void Buckets::exchange(const Update& update, const optim::UpdateContext& context) {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    if (!wait_for(b)) return;
    const Bucket& bucket = buckets_[b];
    sum(bucket);
    update_pieces(bucket, update, context);
  }
}

// A sum that is not finite ends the run: what is updated before it is found counts for nothing.
void Buckets::update_pieces(const Bucket& bucket, const Update& update,
                            const optim::UpdateContext& context) {
  for (const Piece& piece : bucket.pieces) {
    const float* sum = total_ + layout_.offset(piece);
    finite_ = finite_ && all_finite({sum, piece.size()});
    if (finite_ && update.is_local()) update.run(piece, sum, context);
  }
}

}  // namespace lockstep::train::detail
