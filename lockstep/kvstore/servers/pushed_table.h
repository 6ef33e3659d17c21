// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>

#include "lockstep/kvstore/flat_state.h"
#include "lockstep/kvstore/servers/answers.h"
#include "lockstep/kvstore/servers/floats.h"
#include "lockstep/kvstore/servers/image_messages.h"

namespace lockstep::kvstore {

// A server's part of a net's weights and of what their rule keeps, for workers that are not in
// step: each gradient is applied as it comes, once, and whoever pushed it has the new weights. A
// state machine as ServedTable is. One thread at a time.
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
    std::int64_t ticket = -1;  // the last one that was applied
    std::uint64_t staleness = 0;
    comm::Payload kept = {};  // the gradient of one that is not finished, and its rows
    std::int64_t kept_ticket = -1;
  };

  const FlatLayout& layout() const { return state_->layout(); }
  void check_push(const wire::PushGradient& request) const;
  optim::UpdateContext begin(const wire::PushGradient& request);
  double weight_of(const wire::PushGradient& request) const;
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
  std::vector<std::vector<std::uint64_t>> changed_;  // by table and row: the version that it is of
  std::map<std::uint32_t, Worker> workers_;
};

}  // namespace lockstep::kvstore
