// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/kvstore/out_of_step.h"
#include "lockstep/kvstore/servers/connections.h"
#include "lockstep/kvstore/servers/placement.h"
#include "lockstep/kvstore/servers/ticket_messages.h"
#include "lockstep/kvstore/synchronizer.h"

namespace lockstep::kvstore {

// Which table a worker pushes to, as it and whoever asks for its tickets know it.
struct PushTarget {
  std::string table = {};
  std::uint64_t epoch = 0;
  std::uint32_t worker = 0;
  std::int64_t before = 0;  // pushes before the epoch: tickets of a run that goes on
  std::int64_t generation = 0;
  // The run's workers are others than before: its table stays.
  bool goes_on = false;
  // By the servers, when the weights were pulled last; since the run began.
  std::uint64_t least_applied = 0, most_applied = 0;
  bool damps_stale = true;
  PushesSeen seen = {};
};

// A worker that computes its tickets alone. A step is a ticket: its gradient goes to the servers,
// one message for each, which apply it as it comes (PushedTable) and answer with the newest
// weights.
class PushingSynchronizer final : public Synchronizer {
 public:
  // Every worker of the job makes one, of the same table; the target's epoch is new then.
  PushingSynchronizer(ServerConnections& servers, Group& job, PushTarget& target, FlatState& state,
                      std::int64_t shards);

  FlatState& state() override { return state_; }
  bool takes_pieces() const override { return false; }
  std::span<float> memory() override { return {memory_->data(), layout().floats}; }

  void begin(std::int64_t step, double rate) override;
  void give(std::size_t offset, std::span<const Node> nodes) override;
  void give_rows(std::vector<std::vector<RowNode>> tables) override;
  Vote commit(const Vote& own, std::span<float> rows, ThreadTeam& team) override;

  std::span<const float> slot(std::size_t number) override;
  void set_slot(std::size_t number, std::span<const float> values) override;
  std::span<const float> table_slot(std::size_t number, std::size_t table) override;
  void set_table_slot(std::size_t number, std::size_t table,
                      std::span<const float> values) override;
  void weights_changed() override;
  void pull() override;
  std::size_t buffers() const override { return 1; }

 private:
  const FlatLayout& layout() const { return state_.layout(); }
  bool is_used(std::size_t server) const { return !ranges_[server].is_empty(); }
  wire::Access access(std::int32_t slot) const;
  void write(std::int32_t slot, std::span<const float> values);
  double scale(ThreadTeam& team);
  std::uint64_t others() const;
  wire::PushGradient message_for(std::size_t server) const;
  void push();
  void finish();
  void note_applied();
  void take_weights(std::size_t server, const comm::Payload& reply);

  ServerConnections& servers_;
  Group& job_;
  PushTarget& target_;
  FlatState& state_;
  std::int64_t shards_;
  std::vector<TableRange> ranges_;        // by server
  std::vector<std::uint64_t> versions_;   // of the weights that are here, by server
  std::shared_ptr<FlatBuffer> memory_;    // the gradient; sent from where it lies
  std::vector<optim::PieceNorms> norms_;  // by piece, of a rule that measures
  std::vector<RowSums> new_rows_;         // by table
  std::vector<float> slot_;
  std::int64_t ticket_ = 0;
  double rate_ = 0.0, scale_ = 1.0;
  std::uint64_t staleness_ = 0;  // of the ticket
};

}  // namespace lockstep::kvstore
