// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/allreduce.h"

#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/cluster/membership/workers_of.h"
#include "lockstep/kvstore/mesh_mode.h"
#include "lockstep/kvstore/sharded.h"
#include "lockstep/kvstore/share_rows.h"
#include "lockstep/kvstore/tree_sum.h"

namespace lockstep::kvstore {
namespace {

struct Name {
  std::string_view name;
  comm::Algorithm algorithm;
};
constexpr Name kNames[] = {{"tree", comm::Algorithm::tree},
                           {"ring", comm::Algorithm::ring},
                           {"multi_ring", comm::Algorithm::multi_ring},
                           {"hierarchical", comm::Algorithm::hierarchical},
                           {"central", comm::Algorithm::central},
                           {"native", comm::Algorithm::native}};

std::string_view name_of(comm::Algorithm algorithm) {
  for (const Name& entry : kNames)
    if (entry.algorithm == algorithm) return entry.name;
  return "tree";
}

class AllReduceSynchronizer final : public Synchronizer {
 public:
  AllReduceSynchronizer(comm::Communicator& communicator, Group& group,
                        const AllReduceOptions& options, FlatState& state, std::int64_t shards)
      : group_(group),
        state_(state),
        shards_(shards),
        sum_(communicator, group, options, state.layout(), shards),
        memory_(sum_.common_memory()) {
    if (memory_.empty()) own_total_.emplace(layout().floats);
    total_ = memory_.empty() ? own_total_->data() : memory_.data();
  }

  FlatState& state() override { return state_; }
  bool takes_pieces() const override { return false; }
  bool waits_for_links() const override { return sum_.waits_for_links(); }
  std::span<float> memory() override { return memory_; }

  void begin(std::int64_t step, double rate) override {
    finite_ = true;
    sum_.begin();
    state_.begin(step, rate, shards_);
  }

  void give(std::size_t offset, std::span<const Node> nodes) override {
    const std::span<float> sum(total_ + offset, nodes[0].sum.size());
    sum_.run(nodes, offset, sum);
    for (const FlatPiece& piece : layout().pieces_in(offset, sum.size())) {
      const float* gradient = total_ + piece.offset;
      finite_ = finite_ && all_finite({gradient, piece.size()});
      if (finite_ && state_.is_local()) state_.update(piece.offset, piece.size(), gradient);
    }
  }

  // Whatever the algorithm, rows are gathered and added in the canonical order, uncompressed.
  void give_rows(std::vector<std::vector<RowNode>> tables) override {
    share_rows(group_, shards_, tables, state_);
  }

  Vote commit(const Vote& own, std::span<float> rows, ThreadTeam& team) override {
    Vote mine = own;
    mine.finite = own.finite && finite_ && state_.tables().is_finite();
    if (mine.finite && state_.is_local())
      state_.update_tables(team, state_.context().gradient_scale);
    const Vote vote = group_.gather(mine, shards_, rows);
    if (!vote.counts()) return vote;
    if (!state_.is_local()) update_all(team);
    state_.commit();
    sum_.commit();
    return vote;
  }

  std::span<const float> sums() const override { return {total_, layout().floats}; }
  std::span<float> residual() override { return sum_.residual(); }
  std::size_t buffers() const override {
    return (own_total_ ? 1 : 0) + (sum_.keeps_residual() ? 2 : 0);
  }

 private:
  const FlatLayout& layout() const { return state_.layout(); }

  void update_all(ThreadTeam& team) {
    auto* const partial = dynamic_cast<PartialGroup*>(&group_);
    if (partial == nullptr)
      return state_.update_all(team, [&](int, std::size_t offset) { return total_ + offset; });
    const optim::RuleDriver& driver = state_.driver();
    optim::UpdateContext context = state_.context();
    if (driver.clips()) {
      std::vector<double> squares;
      for (std::size_t i = 0; i < driver.pieces(); ++i)
        squares.push_back(driver.squares(i, total_ + layout().pieces[i].offset));
      context = driver.clip(context, partial->all_squares(squares));
    }
    const auto gradient = [&](int, std::size_t parameter, optim::PieceRange range) {
      return total_ + layout().parameters[parameter].offset + range.begin;
    };
    driver.run_scaled(team, context, gradient, [&](std::span<const optim::PieceNorms> own) {
      return partial->all_norms(own);
    });
  }

  Group& group_;
  FlatState& state_;
  std::int64_t shards_;
  WorkerSum sum_;
  std::span<float> memory_;
  std::optional<FlatBuffer> own_total_;
  float* total_ = nullptr;
  bool finite_ = true;
};

class AllReduceMode final : public Mode {
 public:
  AllReduceMode(comm::Communicator& communicator, std::unique_ptr<Group> group,
                const AllReduceOptions& options)
      : communicator_(communicator), options_(options), group_(std::move(group)) {
    if (options.algorithm == comm::Algorithm::native) try_native();
    if (!options.compression.is_none() && options.algorithm != comm::Algorithm::tree)
      throw InvalidArgument(
          "allreduce: compressed gradients are gathered, not added on their way: expected "
          "algorithm tree, got {}",
          name_of(options.algorithm));
    if (const auto codec = make_codec(options.compression)) {
      keeps_residuals_ = codec->keeps_residual();
      largest_ = codec->largest();
    }
  }

  Group& group() override { return *group_; }
  std::unique_ptr<Synchronizer> synchronize(FlatState& state, std::int64_t shards) override {
    if (slot_place() == SlotPlace::shared)
      return std::make_unique<ShardedSynchronizer>(communicator_, *group_, options_, state, shards);
    return std::make_unique<AllReduceSynchronizer>(communicator_, *group_, options_, state, shards);
  }
  void abort(const std::string& reason) override { communicator_.abort(reason); }
  // What a worker alone shares with nobody is all here.
  SlotPlace slot_place() const override {
    const bool is_shared = options_.shard_state != ShardState::none && group_->workers() > 1;
    return is_shared ? SlotPlace::shared : SlotPlace::here;
  }
  bool shares_weights() const override {
    return slot_place() == SlotPlace::shared && options_.shard_state == ShardState::parameters;
  }
  bool is_invariant() const override {
    return options_.compression.is_none() && is_canonical(options_.algorithm);
  }
  std::string description() const override {
    if (is_invariant()) return "canonical";
    return options_.compression.is_none() ? std::string(name_of(options_.algorithm))
                                          : to_string(options_.compression);
  }
  bool keeps_residuals() const override { return keeps_residuals_; }
  double largest_sent() const override { return largest_; }

 private:
  // Told before there is any work that would be lost.
  void try_native() {
    float one = 1.0F;
    communicator_.all_reduce(std::as_writable_bytes(std::span(&one, 1)), comm::Element::float32,
                             comm::Reduction::sum, {options_.timeout, options_.algorithm});
  }

  comm::Communicator& communicator_;
  AllReduceOptions options_;
  std::unique_ptr<Group> group_;
  bool keeps_residuals_ = false;
  double largest_ = Mode::largest_sent();
};

}  // namespace

bool is_canonical(comm::Algorithm algorithm) {
  return algorithm == comm::Algorithm::automatic || algorithm == comm::Algorithm::tree ||
         algorithm == comm::Algorithm::hierarchical || algorithm == comm::Algorithm::central;
}

comm::Algorithm parse_algorithm(std::string_view name) {
  for (const Name& entry : kNames)
    if (entry.name == name) return entry.algorithm;
  throw InvalidArgument(
      "algorithm '{}': expected tree, ring, multi_ring, hierarchical, central or native", name);
}

ShardState parse_shard_state(std::int64_t stage) {
  if (stage < 0 || stage > 3)
    throw InvalidArgument(
        "shard-state {}: expected 0 (nothing), 1 (what the optimizer keeps), 2 (gradients too) or "
        "3 (parameters too)",
        stage);
  return static_cast<ShardState>(stage);
}

std::unique_ptr<Mode> allreduce_mode(comm::Communicator& communicator, const Membership& membership,
                                     const AllReduceOptions& options) {
  return allreduce_mode(communicator, group_of(communicator, membership, options.timeout), options);
}

std::unique_ptr<Mode> allreduce_mode(comm::Communicator& communicator, std::unique_ptr<Group> group,
                                     const AllReduceOptions& options) {
  return std::make_unique<AllReduceMode>(communicator, std::move(group), options);
}

std::unique_ptr<Mode> allreduce_mode(comm::Communicator& communicator,
                                     const AllReduceOptions& options) {
  return allreduce_mode(communicator, cluster::workers_of(communicator), options);
}

}  // namespace lockstep::kvstore
