// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/staged_mode.h"

#include "lockstep/base/error.h"
#include "lockstep/kvstore/part_group.h"
#include "lockstep/kvstore/sliced_mode.h"

namespace lockstep::kvstore {
namespace {

class StageGroup final : public PartGroup {
 public:
  StageGroup(StageLinks& links, std::chrono::milliseconds timeout)
      : PartGroup(links.same_stage(), links.pipeline(), timeout) {}

  // Gradients are made from the last stage on.
  std::vector<double> all_squares(std::span<const double> own) override {
    const std::vector<std::vector<double>> by_stage = of_all_parts(own);
    std::vector<double> all;
    for (auto of_stage = by_stage.rbegin(); of_stage != by_stage.rend(); ++of_stage)
      all.insert(all.end(), of_stage->begin(), of_stage->end());
    return all;
  }
};

class StagedModeOf final : public StagedMode {
 public:
  StagedModeOf(comm::Communicator& communicator, const Membership& membership, int stages,
               const AllReduceOptions& options)
      : communicator_(communicator),
        links_(communicator, stages, options.timeout),
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
  void abort(const std::string& reason) override { communicator_.abort(reason); }

 private:
  comm::Communicator& communicator_;
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
  if (const SliceLinks* slices = slice_links_of(mode))
    return deal_shards(shards, slices->replicas())[static_cast<std::size_t>(slices->replica())];
  const StageLinks* links = stage_links_of(mode);
  if (links == nullptr) return mode.group().range(shards);
  return deal_shards(shards, links->replicas())[static_cast<std::size_t>(links->replica())];
}

std::vector<ShardRange> deal_of(Mode& mode, std::int64_t shards) {
  const StageLinks* links = stage_links_of(mode);
  const SliceLinks* slices = slice_links_of(mode);
  if (links == nullptr && slices == nullptr) return mode.group().membership().deal(shards);
  const int parts = links != nullptr ? links->stages() : slices->workers();
  std::vector<ShardRange> ranges;
  for (const ShardRange& range : deal_shards(shards, replicas_of(mode)))
    ranges.insert(ranges.end(), static_cast<std::size_t>(parts), range);
  return ranges;
}

int replicas_of(Mode& mode) {
  if (const SliceLinks* slices = slice_links_of(mode)) return slices->replicas();
  const StageLinks* links = stage_links_of(mode);
  return links == nullptr ? mode.group().workers() : links->replicas();
}

}  // namespace lockstep::kvstore
