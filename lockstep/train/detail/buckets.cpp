// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/detail/buckets.h"

namespace lockstep::train::detail {

std::vector<kvstore::Synchronizer::Node> nodes_of(GradientSums& sums, std::size_t offset,
                                                  std::size_t count) {
  std::vector<kvstore::Synchronizer::Node> nodes;
  for (std::size_t n = 0; n < sums.nodes().size(); ++n)
    nodes.push_back({sums.nodes()[n], {sums.node(n, offset, count), count}});
  return nodes;
}

Buckets::Buckets(const kvstore::FlatLayout& layout, GradientSums& sums, int threads,
                 std::size_t bucket_bytes)
    : sums_(sums), threads_(threads) {
  for (const kvstore::FlatParameter& parameter : layout.parameters) {
    if (buckets_.empty() || buckets_.back().count * sizeof(float) >= bucket_bytes)
      buckets_.push_back({.offset = parameter.offset});
    Bucket& bucket = buckets_.back();
    ++bucket.parameters;
    bucket.count = parameter.offset + parameter.count - bucket.offset;
    bucket_of_.push_back(buckets_.size() - 1);
  }
  left_ = std::make_unique<std::atomic<std::int32_t>[]>(buckets_.size());
}

void Buckets::begin() {
  given_up_ = false;
  for (std::size_t b = 0; b < buckets_.size(); ++b) left_[b] = buckets_[b].parameters * threads_;
}

void Buckets::parameter_is_ready(std::size_t parameter) {
  std::atomic<std::int32_t>& left = left_[bucket_of_[parameter]];
  if (left.fetch_sub(1, std::memory_order_acq_rel) == 1) left.notify_all();
}

void Buckets::give_up() {
  given_up_ = true;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    left_[b] = 0;
    left_[b].notify_all();
  }
}

// The computing threads always end: each parameter becomes ready, or somebody gives up.
bool Buckets::wait_for(std::size_t bucket) {
  for (std::int32_t left = left_[bucket]; left > 0; left = left_[bucket]) left_[bucket].wait(left);
  return !given_up_;
}

void Buckets::give(kvstore::Synchronizer& synchronizer) {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    if (!wait_for(b)) return;
    const Bucket& bucket = buckets_[b];
    synchronizer.give(bucket.offset, nodes_of(sums_, bucket.offset, bucket.count));
  }
}

}  // namespace lockstep::train::detail
