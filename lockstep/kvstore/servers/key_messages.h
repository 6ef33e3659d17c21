// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/kvstore/servers/table_messages.h"

// What workers say to a server about the values of a store, by key.
namespace lockstep::kvstore::wire {

// A worker takes part in a store, and goes. A store is there while somebody does.
struct JoinStore {
  std::uint64_t store = 0;
  std::uint32_t worker = 0;
  void visit(auto&& fields) { fields(store, worker); }
};

// Rows [0, rows) of a value are here, each of so many floats: part 1. With the same value once more
// it changes nothing.
struct InitKey {
  std::uint64_t store = 0;
  std::string key = {};
  std::uint64_t rows = 0, width = 0;
  void visit(auto&& fields) { fields(store, key, rows, width); }
};

// How far a worker has come with a key: its clock counts its pushes. No worker's is more than
// `bound` ahead of the slowest one's; a request of one that would be waits.
struct Clock {
  std::uint64_t store = 0;
  std::string key = {};
  std::uint32_t worker = 0;
  std::uint64_t count = 0;  // of a push: its own number, from 1
  std::uint64_t bound = 0;
  void visit(auto&& fields) { fields(store, key, worker, count, bound); }
};
inline constexpr std::uint64_t kNoBound = ~std::uint64_t{0};

// A long value is pushed and pulled by parts of so many floats (the last is shorter), so that one
// side is busy with a part while the other is with the next.
inline constexpr std::uint64_t kFloatsAtOnce = std::uint64_t{1} << 18;

// Values, a part each, that are added to those of the other workers' pushes of that number; or that
// are applied as they come.
struct Push {
  Clock clock = {};
  bool in_step = true;
  std::uint64_t seen = 0;               // the version that the worker knew
  std::string compression = {};         // "none"; else part 1 is the code of their sum
  std::uint64_t offset = 0, count = 0;  // floats of the value; a count of 0: all of them
  bool pulls = false;  // in step: answered by PushPulled, and what these floats have become
  void visit(auto&& fields) { fields(clock, in_step, seen, compression, offset, count, pulls); }
};

// Rows of part 1, which are those of these numbers.
struct PushRows {
  Clock clock = {};
  bool in_step = true;
  std::uint64_t seen = 0;
  std::vector<std::uint64_t> rows = {};
  void visit(auto&& fields) { fields(clock, in_step, seen, rows); }
};

struct Pushed {
  std::uint64_t staleness = 0;  // how many pushes were applied since the version that was seen
  void visit(auto&& fields) { fields(staleness); }
};

// Answered by Pulled, and the floats, when the worker's pushes up to its clock are applied.
struct Pull {
  Clock clock = {};
  std::uint64_t offset = 0, count = 0;  // as above
  void visit(auto&& fields) { fields(clock, offset, count); }
};
struct PullRows {
  Clock clock = {};
  std::vector<std::uint64_t> rows = {};
  void visit(auto&& fields) { fields(clock, rows); }
};
struct Pulled {
  std::uint64_t version = 0;  // pushes that were applied
  std::uint64_t slowest = 0;  // clock
  void visit(auto&& fields) { fields(version, slowest); }
};

struct PushPulled {
  Pushed pushed = {};
  Pulled pulled = {};
  void visit(auto&& fields) { fields(pushed, pulled); }
};

// From now on pushes update, by this rule; states begin anew.
struct SetRule {
  std::uint64_t store = 0;
  Rule rule = {};
  double rescale = 1.0;
  void visit(auto&& fields) { fields(store, rule, rescale); }
};

// What the rule keeps for a value: a part for each slot. To write it, it is sent so.
struct KeyState {
  std::uint64_t store = 0;
  std::string key = {};
  std::int64_t steps = 0;
  void visit(auto&& fields) { fields(store, key, steps); }
};

}  // namespace lockstep::kvstore::wire
