// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/kvstore/servers/key_messages.h"
#include "lockstep/kvstore/servers/ticket_messages.h"

// All that a server keeps, for another that is to keep it too. Floats are further parts, in order.
namespace lockstep::kvstore::wire {

// A chunk whose sum was made.
struct ChunkImage {
  std::uint64_t offset = 0, count = 0;
  bool finite = true, is_updated = false;
  void visit(auto&& fields) { fields(offset, count, finite, is_updated); }
};

struct Ids {
  std::vector<std::int64_t> numbers = {};
  void visit(auto&& fields) { fields(numbers); }
};

// The rows of tables of the step under way, by table.
struct RowsImage {
  bool is_summed = false, finite = true, is_updated = false;
  std::vector<Ids> ids = {};
  void visit(auto&& fields) { fields(is_summed, finite, is_updated, ids); }
};

// Floats: weights and slots, those of the last committed step and those of the step under way; then
// the sums, of a table that has them; of each table that learns by rows weights and slots; then the
// sums of the rows of the step under way.
struct TableImage {
  MakeTable made = {};
  std::uint64_t round = 0;
  bool is_open = false, is_aligned = true, is_measured = false, can_revert = false;
  bool is_undecided = false, has_weights = false;
  std::int64_t number = 0;
  double rate = 0.0;
  std::vector<std::int64_t> steps = {};  // one, or none where it is not known
  std::vector<double> scale = {};        // as well
  std::vector<ChunkImage> chunks = {};
  std::vector<double> squares = {};
  std::vector<Norms> norms = {};
  RowsImage rows = {};
  void visit(auto&& fields) {
    fields(made, round, is_open, is_aligned, is_measured, can_revert, is_undecided, has_weights,
           number, rate, steps, scale, chunks, squares, norms, rows);
  }
};

// Floats: the value, then the slots, then the sums of the round under way, if some are made.
struct EntryImage {
  std::string key = {};
  std::uint64_t rows = 0, width = 0, version = 0;
  std::vector<std::uint64_t> clocks = {};
  std::int64_t steps = 0;
  std::uint32_t slots = 0;
  std::vector<std::uint64_t> added = {};  // where parts begin whose sums are made
  void visit(auto&& fields) { fields(key, rows, width, version, clocks, steps, slots, added); }
};

struct StoreImage {
  std::uint64_t store = 0;
  std::vector<std::uint32_t> present = {}, gone = {};
  std::vector<Rule> rule = {};  // one or none
  double rescale = 1.0;
  std::vector<EntryImage> entries = {};
  void visit(auto&& fields) { fields(store, present, gone, rule, rescale, entries); }
};

// Of workers that are not in step. Floats: weights and slots, and the same of each table.
struct PusherImage {
  std::uint32_t worker = 0;
  std::uint64_t staleness = 0;
  void visit(auto&& fields) { fields(worker, staleness); }
};
struct Versions {
  std::vector<std::uint64_t> numbers = {};
  void visit(auto&& fields) { fields(numbers); }
};
struct PushedImage {
  MakeTable made = {};
  std::uint64_t epoch = 0, version = 0;
  std::vector<std::int64_t> before = {};   // updates before the run: none is known, or one number
  std::int64_t applied_before = -1;        // all tickets from the first on
  std::vector<std::int64_t> applied = {};  // and some of the others
  std::vector<PusherImage> workers = {};
  std::vector<Versions> changed = {};  // by table
  void visit(auto&& fields) {
    fields(made, epoch, version, before, applied_before, applied, workers, changed);
  }
};

struct HeldTicket {
  std::int64_t ticket = 0;
  std::uint32_t worker = 0;
  void visit(auto&& fields) { fields(ticket, worker); }
};
struct AnsweredTicket {
  std::uint32_t worker = 0;
  std::uint64_t sequence = 0;
  GivenTicket given = {};
  void visit(auto&& fields) { fields(worker, sequence, given); }
};
struct BookImage {
  std::uint64_t epoch = 0;
  OpenTickets range = {};
  std::int64_t next = 0;
  std::vector<std::int64_t> again = {};
  bool stop = false, is_given_up = false;
  TicketsDone done = {};
  std::vector<HeldTicket> under_way = {};
  std::vector<AnsweredTicket> given = {};
  std::vector<std::string> broken = {};  // one or none
  void visit(auto&& fields) {
    fields(epoch, range, next, again, stop, is_given_up, done, under_way, given, broken);
  }
};

struct StateImage {
  std::vector<TableImage> tables = {};
  std::vector<StoreImage> stores = {};
  std::vector<PushedImage> pushed = {};
  std::vector<BookImage> books = {};
  void visit(auto&& fields) { fields(tables, stores, pushed, books); }
};

}  // namespace lockstep::kvstore::wire
