// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/mesh_mode.h"

#include "lockstep/base/error.h"
#include "lockstep/kvstore/cell_group.h"

namespace lockstep::kvstore {
namespace {

class MeshModeOf final : public MeshMode {
 public:
  MeshModeOf(comm::Communicator& communicator, const Membership& membership,
             const ReplicaShape& shape, const AllReduceOptions& options)
      : communicator_(communicator),
        links_(communicator, shape, options.timeout),
        group_(group_of(communicator, membership, options.timeout)) {
    if (!is_canonical(options.algorithm) || !options.compression.is_none())
      throw InvalidArgument(
          "mesh: gradients are added in the canonical order, uncompressed: expected algorithm tree "
          "and no compression");
    if (options.shard_state != ShardState::none)
      throw Unsupported(
          "mesh: a worker has all state of its stage and slices: expected no shard-state");
    auto same_cell = std::make_unique<CellGroup>(links_);
    same_cell_ = same_cell.get();
    of_cell_ = allreduce_mode(links_.same_cell(), std::move(same_cell), options);
  }

  Group& group() override { return *group_; }
  MeshLinks& links() override { return links_; }
  std::unique_ptr<Synchronizer> synchronize(FlatState& state, std::int64_t shards) override {
    same_cell_->set_layout(state.layout());
    return of_cell_->synchronize(state, shards);
  }
  void abort(const std::string& reason) override { communicator_.abort(reason); }

 private:
  comm::Communicator& communicator_;
  MeshLinks links_;
  std::unique_ptr<Group> group_;
  CellGroup* same_cell_ = nullptr;  // of_cell_ has it
  std::unique_ptr<Mode> of_cell_;
};

}  // namespace

std::unique_ptr<MeshMode> mesh_mode(comm::Communicator& communicator, const Membership& membership,
                                    const ReplicaShape& shape, const AllReduceOptions& options) {
  return std::make_unique<MeshModeOf>(communicator, membership, shape, options);
}

MeshLinks* mesh_links_of(Mode& mode) {
  auto* const mesh = dynamic_cast<MeshMode*>(&mode);
  return mesh == nullptr ? nullptr : &mesh->links();
}

ShardRange range_of(Mode& mode, std::int64_t shards) {
  const MeshLinks* links = mesh_links_of(mode);
  if (links == nullptr) return mode.group().range(shards);
  return deal_shards(shards, links->replicas())[static_cast<std::size_t>(links->replica())];
}

std::vector<ShardRange> deal_of(Mode& mode, std::int64_t shards) {
  const MeshLinks* links = mesh_links_of(mode);
  if (links == nullptr) return mode.group().membership().deal(shards);
  const auto workers = static_cast<std::size_t>(links->stages() * links->tensor());
  std::vector<ShardRange> ranges;
  for (const ShardRange& range : deal_shards(shards, links->replicas()))
    ranges.insert(ranges.end(), workers, range);
  return ranges;
}

int replicas_of(Mode& mode) {
  const MeshLinks* links = mesh_links_of(mode);
  return links == nullptr ? mode.group().workers() : links->replicas();
}

}  // namespace lockstep::kvstore
