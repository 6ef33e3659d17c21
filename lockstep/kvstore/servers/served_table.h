// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <set>

#include "lockstep/kvstore/compression.h"
#include "lockstep/kvstore/flat_state.h"
#include "lockstep/kvstore/servers/answers.h"
#include "lockstep/kvstore/servers/chunk.h"
#include "lockstep/kvstore/servers/floats.h"
#include "lockstep/kvstore/servers/image_messages.h"

namespace lockstep::kvstore {

// A server's part of a net's weights and of what their rule keeps, for workers that are in step
// with each other. It is a state machine: the same requests in the same order give the same bits,
// and a request that comes again changes nothing. One thread at a time.
//
// A round is a step of an epoch that somebody has begun. Gradients come in chunks; when all workers
// have given a chunk, its sum is made in the canonical tree's order and, by a local rule, its new
// weights, which everybody gets who gave. Other rules have two more phases, as RuleDriver has. Rows
// of tables come together, at once: what is updated of them everybody gets, too. New numbers count
// when a later request says that the round was committed, and are dropped otherwise.
class ServedTable {
 public:
  // Throws InvalidArgument, and NotFound for a rule that there is not.
  explicit ServedTable(const wire::MakeTable& request);
  // As it was when it was saved, but for chunks that not everybody had given. Throws Corrupt too.
  ServedTable(const wire::TableImage& image, FloatParts& floats);
  wire::TableImage save(comm::Payload& floats) const;
  // Requests that gave those chunks, as they came.
  void add_waiting(std::vector<comm::MessageEvent>& events) const;
  // Of a table that such a request makes.
  static std::size_t bytes(const wire::MakeTable& request);
  std::size_t bytes() const { return bytes(made_); }

  // Whether the request would make the same table, in another epoch.
  bool is(const wire::MakeTable& request) const;
  // Throws InvalidArgument where it comes from workers of an older membership.
  void check_generation(const wire::MakeTable& request) const;
  // What is open is dropped; but a round that is whole may have been committed, which the workers
  // tell by the step that they go on with. Throws InvalidArgument.
  void begin_epoch(const wire::MakeTable& request, Answers& answers);
  // Whoever waits is told so.
  void drop(Answers& answers);

  // Each throws InvalidArgument or Corrupt for a request that does not fit, before anything has
  // changed. `event` is the request; it has an answer now, or gets it from a later call.
  void give(const comm::MessageEvent& event, const wire::Give& request, ThreadTeam& team,
            Answers& answers);
  void measure(const comm::MessageEvent& event, const wire::Measure& request, ThreadTeam& team,
               Answers& answers);
  void finish(const comm::MessageEvent& event, const wire::Finish& request, ThreadTeam& team,
              Answers& answers);
  void give_rows(const comm::MessageEvent& event, const wire::GiveRows& request, ThreadTeam& team,
                 Answers& answers);
  void finish_rows(const comm::MessageEvent& event, const wire::FinishRows& request,
                   ThreadTeam& team, Answers& answers);
  void settle(const comm::MessageEvent& event, const wire::Settle& request, Answers& answers);
  void align(const comm::MessageEvent& event, const wire::AlignTable& request, Answers& answers);
  // It will not give what the others wait for: they are told, until it is heard of again.
  void lose(std::uint32_t worker, Answers& answers);
  void read(const comm::MessageEvent& event, const wire::Access& request, Answers& answers);
  void write(const comm::MessageEvent& event, const wire::Access& request, Answers& answers);

 private:
  using Chunks = std::map<std::size_t, Chunk>;  // by offset

  const FlatLayout& layout() const { return state_->layout(); }
  void open(const wire::Step& step, Answers& answers);
  void end_round(std::uint64_t committed, Answers& answers);
  bool is_whole() const;
  void decide(std::int64_t steps, Answers& answers);
  void align(std::int64_t steps);
  void check_epoch(std::uint64_t epoch) const;
  void check_open(const wire::Step& step) const;
  std::span<const FlatPiece> pieces_of(std::size_t offset, std::size_t count) const;
  Chunks::iterator find_chunk(const wire::Give& request);
  void check_given(const comm::MessageEvent& event, const wire::Give& request) const;
  void complete(std::size_t offset, Chunk& chunk, ThreadTeam& team, Answers& answers);
  void give_up_chunk(Chunk& chunk, Answers& answers) const;
  void add_up(std::size_t offset, Chunk& chunk, ThreadTeam& team);
  void check_given_rows(const comm::MessageEvent& event, const wire::GiveRows& request) const;
  void add_up_rows(ThreadTeam& team);
  void update_rows(ThreadTeam& team);
  void answer_rows(const comm::MessageEvent& event, Answers& answers) const;
  void decode(std::size_t offset, const Chunk& chunk);
  void answer(std::size_t offset, const Chunk& chunk, const comm::MessageEvent& event,
              Answers& answers) const;
  wire::Given outcome(std::size_t offset, const Chunk& chunk) const;
  void add_weights(std::size_t offset, std::size_t count, comm::Payload& payload) const;
  std::span<float> numbers(const wire::Access& request) const;
  std::vector<std::span<float>> all_numbers() const;
  void load_rows(const wire::TableImage& image, FloatParts& floats);
  void use_scale(double scale);

  std::string name_;
  wire::MakeTable made_;
  std::shared_ptr<FlatState> state_;  // replies are sent from where it lies
  std::unique_ptr<Codec> codec_;
  std::optional<FlatBuffer> sums_;        // of a rule that needs them twice, or of codes
  std::vector<double> squares_;           // by piece
  std::vector<optim::PieceNorms> norms_;  // by piece
  bool is_measured_ = false;

  std::uint64_t epoch_ = 0, round_ = 0;
  bool is_open_ = false, is_aligned_ = true;
  bool is_undecided_ = false;  // what is open is of an older epoch, and whole
  bool has_weights_ = false;   // they were written
  double rate_ = 0.0;
  std::int64_t number_ = 0;            // of the open step
  std::optional<std::int64_t> steps_;  // that the numbers have seen, if that is known
  bool can_revert_ = false;
  std::optional<double> scale_;  // of this round's gradients, once a worker has told
  std::size_t updated_ = 0;      // pieces of this round
  Chunks chunks_;
  Chunk rows_;                                     // of tables: all of them together
  std::vector<std::vector<double>> rows_squares_;  // by table and piece, of a rule that clips
  std::set<std::uint32_t> lost_;                   // workers
};

}  // namespace lockstep::kvstore
