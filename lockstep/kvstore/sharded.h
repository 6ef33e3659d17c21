// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/kvstore/piece_owners.h"
#include "lockstep/kvstore/worker_sum.h"

namespace lockstep::kvstore {

// A worker of those that share what the rule keeps: each runs it for its own pieces alone, and all
// get the new weights from whom they are. With ShardState::gradients a worker has the sums of its
// own pieces alone, too, unless they are made in the memory of its own node, where they cost none.
// With ShardState::parameters that never happens, and it has the weights of its own pieces alone:
// nobody gets new ones before somebody gathers them.
class ShardedSynchronizer final : public Synchronizer {
 public:
  ShardedSynchronizer(comm::Communicator& communicator, Group& group,
                      const AllReduceOptions& options, FlatState& state, std::int64_t shards);

  FlatState& state() override { return state_; }
  bool takes_pieces() const override { return false; }
  bool waits_for_links() const override { return sum_.waits_for_links(); }
  std::span<float> memory() override { return memory_; }

  void begin(std::int64_t step, double rate) override;
  void give(std::size_t offset, std::span<const Node> nodes) override;
  void give_rows(std::vector<std::vector<RowNode>> tables) override;
  Vote commit(const Vote& own, std::span<float> rows, ThreadTeam& team) override;

  comm::WorkPtr start_gathering(std::size_t offset, std::span<float> weights) override;

  std::span<const float> sums() const override;
  std::span<float> residual() override { return sum_.residual(); }
  void collect_slots() override;
  std::span<const float> slot(std::size_t number) override;
  void set_slot(std::size_t number, std::span<const float> values) override;
  std::size_t buffers() const override;
  std::size_t bytes() const override;

 private:
  const FlatLayout& layout() const { return state_.layout(); }
  OwnedPieces& owned() const { return state_.owned(); }
  void make_sums();
  void add_up(std::size_t offset, std::span<const Node> nodes,
              std::span<const comm::ElementRanges> parts);
  // The sum of an own piece's gradients.
  const float* gradient(std::size_t i) const;
  void gather_weights(std::size_t offset, std::size_t count,
                      std::span<const comm::ElementRanges> parts);
  void update_together(ThreadTeam& team);
  template <class Value, class Work>
  std::vector<Value> of_all_pieces(ThreadTeam& team, const Work& work);

  comm::Communicator& communicator_;
  Group& group_;
  FlatState& state_;
  std::int64_t shards_;
  WorkerSum sum_;
  PieceOwners owners_;
  bool keeps_all_sums_;
  std::unique_ptr<comm::Communicator> gathering_;  // where weights are gathered beside other calls
  std::span<float> memory_;                        // of all sums, where workers see each other's
  std::optional<FlatBuffer> sums_;                 // of all pieces, or of the own ones
  std::vector<float> bucket_;                      // sums of which the own ones are kept
  std::vector<std::vector<float>> slots_;          // of all pieces, when they were collected
  bool finite_ = true;
};

}  // namespace lockstep::kvstore
