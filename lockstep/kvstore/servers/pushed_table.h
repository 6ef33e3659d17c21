// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>

#include "lockstep/kvstore/flat_state.h"
#include "lockstep/kvstore/servers/answers.h"
#include "lockstep/kvstore/servers/floats.h"
#include "lockstep/kvstore/servers/image_messages.h"

namespace lockstep::kvstore {

// The tickets that were applied.
class AppliedTickets {
 public:
  AppliedTickets() = default;
  explicit AppliedTickets(const wire::PushedImage& image);
  void save(wire::PushedImage& image) const;
  bool has(std::int64_t ticket) const { return ticket < all_before_ || some_.contains(ticket); }
  // `first` is the first of all.
  void add(std::int64_t ticket, std::int64_t first);

 private:
  std::int64_t all_before_ = -1;  // from the first on; -1: there is none
  std::set<std::int64_t> some_;   // of the others
};

// A server's part of a net's weights and of what their rule keeps, for workers that are not in
// step: each gradient is applied as it comes, once, and whoever pushed it has the new weights. A
// ticket whose worker was lost may come again from another one: where it was applied it counts for
// nothing. A state machine as ServedTable is. One thread at a time.
class PushedTable {
 public:
  // Throws InvalidArgument, and NotFound for a rule that there is not.
  explicit PushedTable(const wire::MakeTable& request);
  // As it was when it was saved, but for gradients that are not finished. Throws Corrupt.
  PushedTable(const wire::PushedImage& image, FloatParts& floats);
  wire::PushedImage save(comm::Payload& floats) const;
  void add_waiting(std::vector<comm::MessageEvent>& events) const;
  // Of a table that such a request makes.
  static std::size_t bytes(const wire::MakeTable& request);
  std::size_t bytes() const { return bytes_; }
  std::uint64_t epoch() const { return epoch_; }
  // Whether it is of the same net and rule.
  bool is(const wire::MakeTable& request) const;
  // Goes on with other workers, as it stands. Who was put out of the job pushes nothing any more.
  // Throws InvalidArgument.
  void begin_epoch(std::uint64_t epoch);

  // Each throws InvalidArgument or Corrupt for a request that does not fit, before anything has
  // changed.
  void push(const comm::MessageEvent& event, const wire::PushGradient& request, ThreadTeam& team,
            Answers& answers);
  void finish(const comm::MessageEvent& event, const wire::FinishGradient& request,
              ThreadTeam& team, Answers& answers);
  void read(const comm::MessageEvent& event, const wire::Access& request, Answers& answers);
  void write(const comm::MessageEvent& event, const wire::Access& request, Answers& answers);
  // What it has pushed, and not finished, is forgotten.
  void worker_left(std::uint32_t worker);

 private:
  struct Worker {
    std::uint64_t staleness = 0;  // of the last one that was applied
    comm::Payload kept = {};      // the gradient of one that is not finished, and its rows
    std::int64_t kept_ticket = -1;
  };

  const FlatLayout& layout() const { return state_->layout(); }
  void check_push(const wire::PushGradient& request) const;
  optim::UpdateContext begin(const wire::PushGradient& request);
  double weight_of(const wire::PushGradient& request) const;
  void keep(const wire::PushGradient& request, const comm::Payload& gradient);
  void apply(const wire::PushGradient& request, const comm::Payload& gradient,
             std::span<const optim::PieceNorms> totals, ThreadTeam& team);
  template <class Work>
  void with_gradients(const comm::Payload& payload, ThreadTeam& team, const Work& work) const;
  void check_gradient(const wire::PushGradient& request, const comm::Payload& payload,
                      ThreadTeam& team) const;
  void apply_rows(const comm::Payload& gradient, double scale, ThreadTeam& team);
  void answer(const comm::MessageEvent& event, const wire::PushGradient& request, Answers& answers);
  RowSums rows_since(std::uint64_t version, std::size_t table) const;
  std::span<float> numbers(const wire::Access& request) const;
  std::vector<std::span<float>> all_numbers() const;

  wire::MakeTable made_;
  std::size_t bytes_;
  std::uint64_t epoch_;
  std::unique_ptr<FlatState> state_;
  std::uint64_t version_ = 0;
  std::optional<std::int64_t> before_;  // updates before the run, as its first push said
  AppliedTickets applied_;
  std::vector<std::vector<std::uint64_t>> changed_;  // by table and row: the version that it is of
  std::map<std::uint32_t, Worker> workers_;
};

}  // namespace lockstep::kvstore
