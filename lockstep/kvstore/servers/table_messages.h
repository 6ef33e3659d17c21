// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/kvstore/flat_layout.h"
#include "lockstep/kvstore/servers/wire.h"
#include "lockstep/optim/optimizer.h"

// What workers in step with each other say to a server about a table: the weights that it has of a
// net, and what their rule keeps. Part 0 of a request or reply is the message; floats are parts of
// their own.
namespace lockstep::kvstore::wire {

// What a request is about: its topic.
enum class Topic : std::uint32_t {
  make_table = 1,
  give = 2,
  measure = 3,
  finish = 4,
  settle = 5,
  read_table = 6,
  write_table = 7,
  make_pushed = 8,
  push_gradient = 9,
  finish_gradient = 10,
  open_tickets = 11,
  take_ticket = 12,
  end_ticket = 13,
  give_rows = 14,
  finish_rows = 15,
  join_store = 16,
  leave_store = 17,
  init_key = 18,
  push = 19,
  push_rows = 20,
  pull = 21,
  pull_rows = 22,
  set_rule = 23,
  read_state = 24,
  write_state = 25,
  batch = 26,       // several requests that came together
  read_batch = 27,  // the same, which leave everything as it is
  align_table = 28,
  remind_ticket = 29,
  read_tickets = 30,
  load_image = 32,  // to a backup: all that the primary has
};

// A message's number for its topic says what it is about, whether a primary forwards it to its
// backup, and which range it concerns.
struct Subject {
  Topic topic = {};
  bool is_forwarded = false;
  int range = 0;
};
constexpr std::uint32_t to_number(const Subject& subject) {
  return static_cast<std::uint32_t>(subject.topic) | (subject.is_forwarded ? 0x80U : 0U) |
         static_cast<std::uint32_t>(subject.range) << 8;
}
constexpr Subject to_subject(std::uint32_t number) {
  return {static_cast<Topic>(number & 0x7f), (number & 0x80) != 0, static_cast<int>(number >> 8)};
}
// Whether it leaves everything as it is.
constexpr bool only_reads(Topic topic) {
  return topic == Topic::pull || topic == Topic::pull_rows || topic == Topic::read_table ||
         topic == Topic::read_state || topic == Topic::read_batch || topic == Topic::read_tickets;
}

struct Argument {
  std::string name = {};
  double value = 0.0;
  void visit(auto&& fields) { fields(name, value); }
};

struct Rule {
  std::string name = {};
  std::vector<Argument> arguments = {};
  void visit(auto&& fields) { fields(name, arguments); }

  static Rule of(const optim::Optimizer& rule);
  optim::OptimizerPtr make() const;
};

struct Parameter {
  std::uint64_t count = 0;
  double rate_multiplier = 1.0, decay_multiplier = 1.0;
  void visit(auto&& fields) { fields(count, rate_multiplier, decay_multiplier); }
};

// Rows of a parameter that learns by rows (kvstore/row_tables.h), one after the other.
struct RowsOf {
  std::uint64_t rows = 0, width = 0;
  double rate_multiplier = 1.0, decay_multiplier = 1.0;
  void visit(auto&& fields) { fields(rows, width, rate_multiplier, decay_multiplier); }
};

// A worker that begins: the table is made, or goes on in a new epoch if it is there. Steps of older
// epochs are refused, and so is an epoch of an older membership (generation_of).
struct MakeTable {
  std::string table = {};
  std::uint64_t epoch = 0;
  std::int64_t shards = 0;
  std::vector<Parameter> parameters = {};  // the parts of them that are here
  Rule rule = {};
  std::string compression = {};            // "none"
  std::vector<std::uint64_t> unused = {};  // FlatLayout::unused, where gradients are compressed
  std::vector<RowsOf> tables = {};         // besides, what is here of them
  // Of workers that are not in step: the table is that of the membership before, as it stands.
  bool goes_on = false;
  void visit(auto&& fields) {
    fields(table, epoch, shards, parameters, rule, compression, unused, tables, goes_on);
  }
};

// The upper half of an epoch: the generation of the workers that began it.
constexpr std::uint64_t generation_of(std::uint64_t epoch) { return epoch >> 32; }
// Who was put out of the job, and does not know it, begins nothing. Throws InvalidArgument.
void check_generation(std::uint64_t epoch, std::uint64_t current);
// Whether two requests are for the same numbers, whoever shares them.
bool is_same(MakeTable a, MakeTable b);

// Of a table that such a request makes. Throws InvalidArgument.
FlatLayout layout_of(const MakeTable& request);

// Which step a request belongs to. Rounds count the steps of an epoch that were begun, from 1; the
// last one that counts is named too, so that a server that has it open knows how it ended.
struct Step {
  std::string table = {};
  std::uint64_t epoch = 0, round = 0, committed = 0;
  std::int64_t number = 0;  // of the step, from 0
  double rate = 0.0;
  std::uint32_t worker = 0;
  void visit(auto&& fields) { fields(table, epoch, round, committed, number, rate, worker); }
};

struct Shards {
  std::int64_t lo = 0, hi = 0;
  void visit(auto&& fields) { fields(lo, hi); }
};

// Sums over shards of the floats [offset, offset + count) of the table: a part for each.
struct Give {
  Step step = {};
  std::uint64_t offset = 0, count = 0;
  std::vector<Shards> nodes = {};
  void visit(auto&& fields) { fields(step, offset, count, nodes); }
};

// Sums over shards of the rows of tables that have a gradient: a part for each, which has those of
// all tables that are here, in turn, as append_bytes (kvstore/row_sums.h) writes them.
struct GiveRows {
  Step step = {};
  std::vector<Shards> nodes = {};
  void visit(auto&& fields) { fields(step, nodes); }
};

struct Squares {
  std::vector<double> by_piece = {};
  void visit(auto&& fields) { fields(by_piece); }
};

// Whether the sums of all workers are finite, and by a rule that clips the squares of each table's.
// By another the rows are updated: part 1 has them, as GiveRows has sums.
struct GivenRows {
  bool finite = true;
  std::vector<Squares> squares = {};
  void visit(auto&& fields) { fields(finite, squares); }
};

// The gradients' scale is known. Answered by GivenRows with the new rows.
struct FinishRows {
  Step step = {};
  double scale = 1.0;
  void visit(auto&& fields) { fields(step, scale); }
};

struct Norms {
  double weight = 0.0, direction = 0.0;
  void visit(auto&& fields) { fields(weight, direction); }
};

// Whether the sums of all workers are finite. By a local rule the new weights are part 1; by
// another, what is needed of each piece to go on.
struct Given {
  bool finite = true;
  std::vector<double> squares = {};
  std::vector<Norms> norms = {};
  void visit(auto&& fields) { fields(finite, squares, norms); }
};

// The gradients' scale is known. Answered by the norms of the table's pieces.
struct Measure {
  Step step = {};
  double scale = 1.0;
  void visit(auto&& fields) { fields(step, scale); }
};
struct Measured {
  std::vector<Norms> norms = {};
  void visit(auto&& fields) { fields(norms); }
};

// Everything is known. Answered by an empty part and the new weights of what was given there.
struct Finish {
  Step step = {};
  std::uint64_t offset = 0, count = 0;
  double scale = 1.0;
  std::vector<Norms> totals = {};  // by parameter, of a rule that measures
  void visit(auto&& fields) { fields(step, offset, count, scale, totals); }
};

// A round has ended: it counts if it is the one that was committed.
struct Settle {
  Step step = {};
  void visit(auto&& fields) { fields(step); }
};

// Workers that go on in another epoch have done so many steps: the table, which may have heard of
// one more or not yet of the last one, comes to the same.
struct AlignTable {
  std::string table = {};
  std::uint64_t epoch = 0;
  std::int64_t steps = 0;
  void visit(auto&& fields) { fields(table, epoch, steps); }
};

// Weights (slot -1) or a slot, after the last committed step. To write, the floats are part 1.
struct Access {
  std::string table = {};
  std::uint64_t epoch = 0;
  std::int32_t slot = -1;
  std::uint64_t offset = 0, count = 0;
  bool clears_slots = false;  // all of them, when something is written
  std::int32_t rows = -1;     // of this one of the tables that learn by rows; -1: of none
  void visit(auto&& fields) { fields(table, epoch, slot, offset, count, clears_slots, rows); }
};

}  // namespace lockstep::kvstore::wire
