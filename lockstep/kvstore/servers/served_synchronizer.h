// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/kvstore/compression.h"
#include "lockstep/kvstore/servers/connections.h"
#include "lockstep/kvstore/servers/placement.h"
#include "lockstep/kvstore/synchronizer.h"

namespace lockstep::kvstore {

// A worker of those that are in step with each other: servers add what all give and run the rule
// (ServedTable), and each worker has the new weights from them. The workers' own votes say whether
// they count.
class ServedSynchronizer final : public Synchronizer {
 public:
  struct TableOf {
    std::string name;
    std::int64_t generation = 0;  // of the workers
  };
  // Every worker makes one, of the same table.
  ServedSynchronizer(ServerConnections& servers, Group& group, const TableOf& table,
                     const Compression& compression, FlatState& state, std::int64_t shards);
  ~ServedSynchronizer() override;

  FlatState& state() override { return state_; }
  bool takes_pieces() const override { return false; }
  bool waits_for_links() const override { return !servers_.are_near(); }
  std::span<float> memory() override;

  void begin(std::int64_t step, double rate) override;
  void give(std::size_t offset, std::span<const Node> nodes) override;
  void give_rows(std::vector<std::vector<RowNode>> tables) override;
  Vote commit(const Vote& own, std::span<float> rows, ThreadTeam& team) override;

  std::span<float> residual() override { return residual_; }
  std::span<const float> slot(std::size_t number) override;
  void set_slot(std::size_t number, std::span<const float> values) override;
  std::span<const float> table_slot(std::size_t number, std::size_t table) override;
  void set_table_slot(std::size_t number, std::size_t table,
                      std::span<const float> values) override;
  void align(std::int64_t steps) override;
  void weights_changed() override;
  std::size_t buffers() const override;

 private:
  // Floats of one server that travel together: whole pieces.
  struct Part {
    int server = 0;
    std::size_t first_piece = 0, pieces = 0;  // of the layout
    std::size_t offset = 0, count = 0;
  };
  struct Pending {
    Part part;
    ServerReply reply;
  };

  const FlatLayout& layout() const { return state_.layout(); }
  const TableRange& range(int server) const { return ranges_[static_cast<std::size_t>(server)]; }
  bool is_used(int server) const { return !range(server).is_empty(); }
  std::string what() const;

  std::vector<Part> parts_in(std::size_t offset, std::size_t count) const;
  void send(const Part& part, std::size_t offset, std::span<const Node> nodes);
  comm::Payload floats_of(const Part& part, std::size_t offset, std::span<const Node> nodes);
  comm::Payload codes_of(const Part& part, std::size_t offset, std::span<const Node> nodes);
  std::shared_ptr<std::vector<float>> take_buffer();
  void take_done();
  void take(std::size_t number);
  void take_weights(const Part& part, const comm::Payload& reply);

  void take_rows();
  void take_new_rows(int server, const comm::Payload& reply);
  void finish_rows(double scale);
  void finish_step();
  void measure(double scale);
  void finish(const optim::UpdateContext& context, const std::vector<Part>& parts);
  void drop_failed_step();
  void settle(std::chrono::milliseconds timeout = {});
  wire::Access access(std::int32_t slot) const;
  void read(std::int32_t slot, std::span<float> to);
  enum class OldSlots { kept, cleared };
  void write(std::int32_t slot, std::span<const float> from, OldSlots old = OldSlots::kept);

  ServerConnections& servers_;
  Group& group_;
  Compression compression_;
  std::unique_ptr<Codec> codec_;
  FlatState& state_;
  std::int64_t shards_;
  ShardRange own_range_;
  std::vector<TableRange> ranges_;  // by server
  std::shared_ptr<FlatBuffer> memory_;

  wire::Step step_;
  bool is_settled_ = true, is_voting_ = false;
  bool is_begun_ = false;  // the run: a step, or one of an earlier membership
  bool finite_ = true;
  std::vector<Pending> pending_;
  std::vector<std::pair<int, ServerReply>> pending_rows_;
  std::vector<RowSums> new_rows_;                 // by table
  std::vector<std::vector<double>> row_squares_;  // by table and piece
  std::vector<Part> parts_;                       // of this step
  std::vector<double> squares_;
  std::vector<optim::PieceNorms> norms_;
  std::vector<std::shared_ptr<std::vector<float>>> sent_;  // of this step and earlier ones
  std::size_t sent_now_ = 0;
  std::vector<float> residual_, next_residual_, slot_;
};

}  // namespace lockstep::kvstore
