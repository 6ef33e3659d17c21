// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/detail/unit_run.h"

#include <algorithm>

#include "lockstep/train/detail/buckets.h"

namespace lockstep::train::detail {

UnitRun::UnitRun(StepProgram& program, WeightUnits& units, kvstore::Synchronizer& synchronizer,
                 GradientSums& sums, const UnitOptions& options)
    : program_(program),
      units_(units),
      synchronizer_(synchronizer),
      sums_(sums),
      options_(options),
      buckets_(units.size()) {
  make_buckets(synchronizer.state().layout(), options.bucket_bytes);
  std::int64_t most = 0;  // shards of a thread
  for (int thread = 0; thread < options.threads; ++thread)
    most = std::max(most, sums.range_of(thread).hi - sums.range_of(thread).lo);
  // A net in one piece is done with a shard before the next one begins.
  const std::int64_t under_way = units.size() == 1 ? 1 : most;
  const auto threads = static_cast<std::size_t>(options.threads);
  program.make_executables(threads * static_cast<std::size_t>(under_way),
                           options.recompute ? threads : 0);
}

void UnitRun::make_buckets(const kvstore::FlatLayout& layout, std::size_t bucket_bytes) {
  for (const kvstore::FlatParameter& parameter : layout.parameters) {
    std::vector<Bucket>& of_segment = buckets_[program_.part_of(parameter)];
    if (of_segment.empty() || of_segment.back().count * sizeof(float) >= bucket_bytes)
      of_segment.push_back({parameter.offset, 0});
    of_segment.back().count = parameter.offset + parameter.count - of_segment.back().offset;
  }
}

// Those of a thread are as far apart as there are threads: each has an arena of its own, which its
// shards may have in common.
StepExecutable& UnitRun::executable(int thread, std::int64_t shard) {
  const std::int64_t place = units_.size() == 1 ? 0 : shard - sums_.range_of(thread).lo;
  return program_.executable(static_cast<std::size_t>(place * options_.threads + thread));
}

template <class Work>
void UnitRun::for_shards(ThreadTeam& team, const Work& work) {
  team.run([&](int thread) {
    const ShardRange own = sums_.range_of(thread);
    for (std::int64_t shard = own.lo; shard < own.hi; ++shard)
      work(thread, shard, executable(thread, shard));
  });
}

void UnitRun::run(ThreadTeam& team, const Begin& begin, const Receivers& receiver) {
  units_.forget();
  const std::size_t count = units_.size();
  for (std::size_t s = 0; s < count; ++s) {
    units_.wait(s, synchronizer_);
    if (s + 1 < count) units_.start(s + 1, synchronizer_);
    if (count == 1) break;
    for_shards(team, [&](int, std::int64_t shard, StepExecutable& own) {
      if (s == 0) begin(own, shard);
      own.run_forward(s);
    });
  }
  for (std::size_t s = count; s-- > 0;) {
    units_.wait(s, synchronizer_);
    if (s > 0) units_.start(s - 1, synchronizer_);
    sums_.look_at(units_.unit(s).begin);
    for_shards(team, [&](int thread, std::int64_t shard, StepExecutable& own) {
      if (count == 1) begin(own, shard);
      if (count > 1 && options_.recompute) own.run_forward(s);
      own.run_backward(s, receiver(thread, shard));
    });
    give(s);
  }
}

void UnitRun::give(std::size_t segment) {
  for (const Bucket& bucket : buckets_[segment])
    synchronizer_.give(bucket.offset, nodes_of(sums_, bucket.offset, bucket.count));
}

}  // namespace lockstep::train::detail
