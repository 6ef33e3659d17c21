// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/allreduce.h"

#include <algorithm>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/cluster/membership/workers_of.h"
#include "lockstep/kvstore/compressed_sum.h"
#include "lockstep/kvstore/node_sum.h"
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
      : communicator_(communicator),
        group_(group),
        options_{options.timeout, options.algorithm},
        is_canonical_(options.compression.is_none() && is_canonical(options.algorithm)),
        state_(state),
        shards_(shards),
        ranges_(group.membership().deal(shards)),
        memory_(common_memory()) {
    if (!options.compression.is_none())
      compressed_.emplace(communicator, options.compression, options_);
    if (memory_.empty()) own_total_.emplace(layout().floats);
    total_ = memory_.empty() ? own_total_->data() : memory_.data();
  }

  FlatState& state() override { return state_; }
  bool takes_pieces() const override { return false; }
  bool waits_for_links() const override { return communicator_.topology().size() > 1; }
  std::span<float> memory() override { return memory_; }

  void begin(std::int64_t step, double rate) override {
    finite_ = true;
    if (compressed_) compressed_->begin(layout().floats);
    state_.begin(step, rate, shards_);
  }

  void give(std::size_t offset, std::span<const Node> nodes) override {
    const std::span<float> sum(total_ + offset, nodes[0].sum.size());
    add_up(nodes, offset, sum);
    clear_unused(offset, sum.size());
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
    if (!state_.is_local())
      state_.update_all(team, [&](int, std::size_t offset) { return total_ + offset; });
    state_.commit();
    if (compressed_) compressed_->commit();
    return vote;
  }

  std::span<const float> sums() const override { return {total_, layout().floats}; }
  std::span<float> residual() override {
    return compressed_ ? compressed_->residual(layout().floats) : std::span<float>();
  }
  std::size_t buffers() const override {
    return (own_total_ ? 1 : 0) + (compressed_ && compressed_->keeps_residual() ? 2 : 0);
  }

 private:
  const FlatLayout& layout() const { return state_.layout(); }

  void add_up(std::span<const Node> nodes, std::size_t offset, std::span<float> sum) {
    if (is_canonical_) return add_tree(nodes, sum);
    add_nodes(nodes, sum);
    if (compressed_) return compressed_->run(offset, sum);
    communicator_.all_reduce(std::as_writable_bytes(sum), comm::Element::float32,
                             comm::Reduction::sum, options_);
  }

  void add_tree(std::span<const Node> nodes, std::span<float> sum) {
    std::vector<comm::TreeNode> own;
    for (const Node& node : nodes)
      own.push_back({node.shards.lo, node.shards.hi, std::as_bytes(node.sum)});
    communicator_.tree_sum(own, shards_, std::as_writable_bytes(sum), options_, ranges_);
  }

  // Compressed gradients may say something where there is nothing; it would grow there.
  void clear_unused(std::size_t offset, std::size_t count) {
    if (!compressed_ || !compressed_->keeps_residual()) return;
    const std::span<float> left = compressed_->next_residual();
    const std::vector<std::size_t>& unused = layout().unused;
    for (auto place = std::lower_bound(unused.begin(), unused.end(), offset);
         place != unused.end() && *place < offset + count; ++place)
      left[*place] = total_[*place] = 0.0F;
  }

  // Where workers see each other's memory, and each has one node, its sum can be made there.
  std::span<float> common_memory() {
    if (waits_for_links() || !is_canonical_ || !all_have_one_node() || !all_have_this_layout())
      return {};
    const auto bytes = communicator_.common_memory(layout().floats * sizeof(float), options_);
    return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
  }

  bool all_have_one_node() const {
    return std::all_of(ranges_.begin(), ranges_.end(), [&](const ShardRange& range) {
      return subtrees_in(shards_, range).size() == 1;
    });
  }

  // Workers that do not have the same net to train find that out elsewhere.
  bool all_have_this_layout() {
    const std::uint64_t floats = layout().floats;
    std::vector<std::uint64_t> all(ranges_.size());
    communicator_.all_gather(std::as_bytes(std::span(&floats, 1)),
                             std::as_writable_bytes(std::span(all)), options_);
    return std::all_of(all.begin(), all.end(), [&](std::uint64_t of) { return of == floats; });
  }

  comm::Communicator& communicator_;
  Group& group_;
  comm::CallOptions options_;
  bool is_canonical_;
  FlatState& state_;
  std::int64_t shards_;
  std::vector<ShardRange> ranges_;  // by rank
  std::optional<CompressedSum> compressed_;
  std::span<float> memory_;
  std::optional<FlatBuffer> own_total_;
  float* total_ = nullptr;
  bool finite_ = true;
};

class AllReduceMode final : public Mode {
 public:
  AllReduceMode(comm::Communicator& communicator, const Membership& membership,
                const AllReduceOptions& options)
      : communicator_(communicator),
        options_(options),
        group_(group_of(communicator, membership, options.timeout)) {
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
    return std::make_unique<AllReduceSynchronizer>(communicator_, *group_, options_, state, shards);
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

std::unique_ptr<Mode> allreduce_mode(comm::Communicator& communicator, const Membership& membership,
                                     const AllReduceOptions& options) {
  return std::make_unique<AllReduceMode>(communicator, membership, options);
}

std::unique_ptr<Mode> allreduce_mode(comm::Communicator& communicator,
                                     const AllReduceOptions& options) {
  return allreduce_mode(communicator, cluster::workers_of(communicator), options);
}

}  // namespace lockstep::kvstore
