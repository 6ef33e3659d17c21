// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/kvstore/servers/table_messages.h"

// What workers that are not in step say to servers: tickets are dealt by the first server, and the
// gradient of a ticket is pushed to all of them.
namespace lockstep::kvstore::wire {

// The gradient of a ticket, part 1: it is applied now, and answered by PushedGradient and the new
// weights. By a rule that measures it is kept, and answered by the norms of its pieces.
struct PushGradient {
  std::string table = {};
  std::uint64_t epoch = 0;
  std::uint32_t worker = 0;
  std::int64_t ticket = 0;
  std::int64_t before = 0;  // updates that were made before the run began
  std::uint64_t seen = 0;   // the version of the weights that it was computed with
  double rate = 0.0, scale = 1.0;
  // By how many pushes its weights may be older than those that it meets before it counts for less.
  std::uint64_t fresh = ~std::uint64_t{0};
  void visit(auto&& fields) {
    fields(table, epoch, worker, ticket, before, seen, rate, scale, fresh);
  }
};

struct PushedGradient {
  std::uint64_t version = 0;    // pushes that were applied in this epoch
  std::uint64_t staleness = 0;  // those of them since the version that was seen
  std::vector<Norms> norms = {};
  void visit(auto&& fields) { fields(version, staleness, norms); }
};

// The norms of what was pushed are known, by parameter. Answered by PushedGradient and weights.
struct FinishGradient {
  PushGradient push = {};
  std::vector<Norms> totals = {};
  void visit(auto&& fields) { fields(push, totals); }
};

// From now on the tickets [first, end) are dealt. A step has `per_step` of them; none is dealt
// whose step is more than `bound` ahead of the oldest one that has a ticket under way.
struct OpenTickets {
  std::string table = {};
  std::uint64_t epoch = 0;
  std::int64_t first = 0, end = 0, per_step = 1;
  std::uint64_t bound = 0;
  // Of another membership: tickets from `first` on that are done stay so, the others are dealt.
  bool goes_on = false;
  void visit(auto&& fields) { fields(table, epoch, first, end, per_step, bound, goes_on); }
};
inline constexpr std::uint64_t kAnySteps = ~std::uint64_t{0};

// A worker's request number `sequence` of an epoch, from 1: one that comes again has the same
// answer. It may wait.
struct TakeTicket {
  std::string table = {};
  std::uint64_t epoch = 0;
  std::uint32_t worker = 0;
  std::uint64_t sequence = 0;
  bool stop = false;           // the worker wishes that no step is begun any more
  std::uint64_t patience = 0;  // milliseconds without any ticket's end
  void visit(auto&& fields) { fields(table, epoch, worker, sequence, stop, patience); }
};

struct GivenTicket {
  // again: ask once more; stuck: nothing is done for too long.
  enum Kind : std::uint8_t { ticket = 0, none = 1, again = 2, stuck = 3 };
  std::uint8_t kind = none;
  std::int64_t number = 0;   // of the ticket; where it is stuck, that which is waited for
  std::uint64_t ahead = 0;   // steps, of the oldest that has a ticket under way
  std::int64_t end = 0;      // of the tickets that are dealt
  bool stop = false;         // some worker wishes to
  std::uint32_t worker = 0;  // who has the ticket
  void visit(auto&& fields) { fields(kind, number, ahead, end, stop, worker); }
};

// Who has asked so for a ticket, and has waited for long, is told: to ask again, or, where nothing
// goes on, whom for. A server says it to itself and to its backup: they have the same clock then.
struct RemindTicket {
  std::string table = {};
  std::uint64_t epoch = 0;
  std::uint32_t worker = 0;
  std::uint64_t sequence = 0;
  bool is_stuck = false;  // otherwise it asks again
  void visit(auto&& fields) { fields(table, epoch, worker, sequence, is_stuck); }
};

// A ticket's gradient is applied by all servers; or the worker could not do it, and nobody gets
// another ticket.
struct EndTicket {
  std::string table = {};
  std::uint64_t epoch = 0;
  std::uint32_t worker = 0;
  std::int64_t ticket = 0;
  bool done = true;
  double loss = 0.0, accuracy = 0.0;
  void visit(auto&& fields) { fields(table, epoch, worker, ticket, done, loss, accuracy); }
};

// How far the tickets are. Answered by TicketsDone.
struct ReadTickets {
  std::string table = {};
  std::uint64_t epoch = 0;
  void visit(auto&& fields) { fields(table, epoch); }
};

struct TicketsDone {
  std::int64_t tickets = 0;           // since they were opened
  double loss = 0.0, accuracy = 0.0;  // sums over them
  std::int64_t of_run = 0;            // tickets, since the run began
  void visit(auto&& fields) { fields(tickets, loss, accuracy, of_run); }
};

}  // namespace lockstep::kvstore::wire
