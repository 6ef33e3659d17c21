// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/staged_mode.h"

#include <cstring>

#include "lockstep/base/error.h"
#include "lockstep/cluster/membership/workers_of.h"
#include "lockstep/comm/agreement.h"

namespace lockstep::kvstore {
namespace {

// The workers of one stage, who ask the other stages of their pipelines before a step counts.
class StageGroup final : public PartialGroup {
 public:
  StageGroup(StageLinks& links, std::chrono::milliseconds timeout)
      : links_(links),
        same_stage_(
            group_of(links.same_stage(), cluster::workers_of(links.same_stage()), timeout)) {
    options_.timeout = timeout;
  }

  const Membership& membership() const override { return same_stage_->membership(); }
  int rank() const override { return same_stage_->rank(); }
  std::vector<std::string> share(const std::string& own) override {
    return same_stage_->share(own);
  }
  std::string from(int rank, const std::string& own) override {
    return same_stage_->from(rank, own);
  }
  std::vector<float> collect(std::span<const float> own) override {
    return same_stage_->collect(own);
  }
  const comm::Meter* meter() const override { return same_stage_->meter(); }

  // Gradients are made from the last stage on.
  std::vector<double> all_squares(std::span<const double> own) override {
    const std::string bytes(reinterpret_cast<const char*>(own.data()), own.size_bytes());
    const std::vector<std::string> by_stage = comm::share_texts(links_.pipeline(), bytes, options_);
    std::vector<double> all;
    for (auto of_stage = by_stage.rbegin(); of_stage != by_stage.rend(); ++of_stage) {
      const std::size_t count = all.size();
      all.resize(count + of_stage->size() / sizeof(double));
      std::memcpy(all.data() + count, of_stage->data(), of_stage->size());
    }
    return all;
  }

  // What a stage does not make is zeros in its rows: bit by bit, each number is somebody's.
  Vote gather(const Vote& own, std::int64_t parts, std::span<float> rows) override {
    Vote vote = same_stage_->gather(own, parts, rows);
    const std::size_t message = sizeof(Vote) + rows.size_bytes();
    sent_.resize(message);
    received_.resize(message * static_cast<std::size_t>(links_.stages()));
    std::memcpy(sent_.data(), &vote, sizeof vote);
    std::memcpy(sent_.data() + sizeof vote, rows.data(), rows.size_bytes());
    links_.pipeline().all_gather(sent_, received_, options_);
    auto* const table = reinterpret_cast<std::byte*>(rows.data());
    for (std::size_t begin = 0; begin < received_.size(); begin += message) {
      Vote its;
      std::memcpy(&its, received_.data() + begin, sizeof its);
      vote = combine(vote, its);
      const std::byte* from = received_.data() + begin + sizeof its;
      for (std::size_t i = 0; i < rows.size_bytes(); ++i) table[i] |= from[i];
    }
    return vote;
  }

 private:
  StageLinks& links_;
  std::unique_ptr<Group> same_stage_;
  comm::CallOptions options_;
  std::vector<std::byte> sent_, received_;
};

class StagedModeOf final : public StagedMode {
 public:
  StagedModeOf(comm::Communicator& communicator, const Membership& membership, int stages,
               const AllReduceOptions& options)
      : links_(communicator, stages, options.timeout),
        group_(group_of(communicator, membership, options.timeout)) {
    if (!is_canonical(options.algorithm) || !options.compression.is_none())
      throw InvalidArgument(
          "pipeline: gradients are added in the canonical order, uncompressed: expected algorithm "
          "tree and no compression");
    if (options.shard_state != ShardState::none)
      throw Unsupported(
          "pipeline: a stage's workers have all of its state: expected no shard-state");
    of_stage_ = allreduce_mode(links_.same_stage(),
                               std::make_unique<StageGroup>(links_, options.timeout), options);
  }

  Group& group() override { return *group_; }
  StageLinks& links() override { return links_; }
  std::unique_ptr<Synchronizer> synchronize(FlatState& state, std::int64_t shards) override {
    return of_stage_->synchronize(state, shards);
  }

 private:
  StageLinks links_;
  std::unique_ptr<Group> group_;
  std::unique_ptr<Mode> of_stage_;
};

}  // namespace

std::unique_ptr<StagedMode> staged_mode(comm::Communicator& communicator,
                                        const Membership& membership, int stages,
                                        const AllReduceOptions& options) {
  return std::make_unique<StagedModeOf>(communicator, membership, stages, options);
}

StageLinks* stage_links_of(Mode& mode) {
  auto* const staged = dynamic_cast<StagedMode*>(&mode);
  return staged == nullptr ? nullptr : &staged->links();
}

ShardRange range_of(Mode& mode, std::int64_t shards) {
  const StageLinks* links = stage_links_of(mode);
  if (links == nullptr) return mode.group().range(shards);
  return deal_shards(shards, links->replicas())[static_cast<std::size_t>(links->replica())];
}

std::vector<ShardRange> deal_of(Mode& mode, std::int64_t shards) {
  const StageLinks* links = stage_links_of(mode);
  if (links == nullptr) return mode.group().membership().deal(shards);
  std::vector<ShardRange> ranges;
  for (const ShardRange& range : deal_shards(shards, links->replicas()))
    ranges.insert(ranges.end(), static_cast<std::size_t>(links->stages()), range);
  return ranges;
}

int replicas_of(Mode& mode) {
  const StageLinks* links = stage_links_of(mode);
  return links == nullptr ? mode.group().workers() : links->replicas();
}

}  // namespace lockstep::kvstore
