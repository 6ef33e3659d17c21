// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "lockstep/base/error.h"
#include "lockstep/kvstore/synchronizer.h"

namespace lockstep::kvstore {
namespace {

class LocalSynchronizer final : public Synchronizer {
 public:
  LocalSynchronizer(Group& group, FlatState& state, std::int64_t shards)
      : group_(group), state_(state), shards_(shards) {
    if (!state_.is_local()) sums_.resize(state_.layout().pieces.size());
  }

  FlatState& state() override { return state_; }
  bool takes_pieces() const override { return true; }

  void begin(std::int64_t step, double rate) override { state_.begin(step, rate, shards_); }

  void give(std::size_t offset, std::span<const Node> nodes) override {
    check(nodes.size() == 1, "one process has the sum over all shards");
    const std::span<const float> sum = nodes[0].sum;
    if (state_.is_local()) return state_.update(offset, sum.size(), sum.data());
    for (const FlatPiece& piece : state_.layout().pieces_in(offset, sum.size()))
      sums_[number_of(piece)] = sum.data() + (piece.offset - offset);
  }

  void give_rows(std::vector<std::vector<RowNode>> tables) override {
    for (std::size_t t = 0; t < tables.size(); ++t) {
      check(tables[t].size() == 1, "one process has the sum over all shards");
      state_.tables().set_gradient(t, std::move(tables[t][0].sum));
    }
  }

  Vote commit(const Vote& own, std::span<float> rows, ThreadTeam& team) override {
    Vote mine = own;
    mine.finite = own.finite && state_.tables().is_finite();
    if (mine.finite && state_.is_local())
      state_.update_tables(team, state_.context().gradient_scale);
    const Vote vote = group_.gather(mine, shards_, rows);
    if (!vote.counts()) return vote;
    if (!state_.is_local())
      state_.update_all(team, [&](int, std::size_t offset) {
        return sums_[number_of(state_.layout().pieces_in(offset, 1)[0])];
      });
    state_.commit();
    return vote;
  }

 private:
  std::size_t number_of(const FlatPiece& piece) const {
    return static_cast<std::size_t>(&piece - state_.layout().pieces.data());
  }

  Group& group_;
  FlatState& state_;
  std::int64_t shards_;
  std::vector<const float*> sums_;  // by piece, of a rule that needs all of them first
};

class LocalMode final : public Mode {
 public:
  Group& group() override { return *group_; }
  std::unique_ptr<Synchronizer> synchronize(FlatState& state, std::int64_t shards) override {
    return std::make_unique<LocalSynchronizer>(*group_, state, shards);
  }

 private:
  std::unique_ptr<Group> group_ = group_of_one();
};

}  // namespace

void Synchronizer::set_slot(std::size_t number, std::span<const float> values) {
  std::copy(values.begin(), values.end(), state().slot(number).begin());
}

void Synchronizer::set_table_slot(std::size_t number, std::size_t table,
                                  std::span<const float> values) {
  std::ranges::copy(values, state().tables().slot(number, table).begin());
}

comm::WorkPtr Synchronizer::start_gathering(std::size_t, std::span<float>) {
  throw InternalError("weights that are here are not gathered");
}

void Synchronizer::give_rows(std::vector<std::vector<RowNode>>) {
  throw Unsupported(
      "kvstore: parameters with sparse gradients are trained by local and allreduce, not by this "
      "mode");
}

double Mode::largest_sent() const { return std::numeric_limits<float>::max(); }

std::unique_ptr<Mode> local_mode() { return std::make_unique<LocalMode>(); }

}  // namespace lockstep::kvstore
