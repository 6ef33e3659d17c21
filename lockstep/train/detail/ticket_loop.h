// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/data/loader.h"
#include "lockstep/kvstore/out_of_step.h"
#include "lockstep/kvstore/synchronizer.h"
#include "lockstep/train/step_engine.h"

namespace lockstep::train::detail {

// How the steps of a run are cut into tickets: each is some whole shards of one step.
struct TicketPlan {
  std::int64_t per_step = 1;
  std::int64_t shards = 1;  // of a ticket

  // As many as there are workers, or some more so that all are of the same length.
  static TicketPlan of(std::int64_t shards_of_step, int workers);

  std::int64_t step_of(std::int64_t ticket) const { return ticket / per_step; }
  std::int64_t first_shard_of(std::int64_t ticket) const { return ticket % per_step * shards; }
};

// What this worker has computed.
struct TicketResult {
  std::int64_t ticket = 0;
  double loss = 0.0, accuracy = 0.0;
  std::uint64_t ahead = 0;  // steps, of the oldest ticket under way when it was dealt
};

// A gradient that is not finite, or whose loss is not.
struct BadTicket {
  std::int64_t ticket = 0;
  double loss = 0.0;
  std::vector<data::Fields> batches = {};  // empty: it is another worker's
};

// All workers' tickets between two points at which they meet.
struct Stretch {
  std::int64_t end = 0;               // the ticket after the last one that is applied
  bool pause = false;                 // somebody wishes to come out of the generation
  double loss = 0.0, accuracy = 0.0;  // sums over tickets
  std::int64_t tickets = 0;
  std::optional<std::string> stop = {};  // why, if somebody wishes to
  std::optional<BadTicket> bad = {};     // the first
  kvstore::PushesSeen seen = {};         // since the run began
};

struct TicketHooks {
  // A ticket's is its part of it, so that a step's updates go as far as one of a run in step does.
  std::function<double(std::int64_t step)> rate;
  // Why this worker wishes to stop; empty: it does not.
  std::function<std::string()> wish;
  // Whether it wishes to come out of the generation.
  std::function<bool()> pause;
  std::function<StepResult(std::int64_t ticket, double rate, const std::vector<data::Fields>&)> run;
  std::function<void(const TicketResult&)> on_end;
};

// The work of workers that are not in step, from one point at which all meet to the next. There all
// tickets before it are applied, none after it is begun, and everybody has the same weights and
// running statistics, those being the mean over the workers, by the tickets that each has done.
class TicketLoop {
 public:
  TicketLoop(kvstore::Mode& mode, StepEngine& engine, data::Loader& loader, const TicketPlan& plan);

  // Every worker calls it. Where it throws CommError, others may go on with the same tickets.
  Stretch run(std::int64_t first, std::int64_t end, const TicketHooks& hooks);

  // The workers are others from now on. They have done some of the tickets since all have met.
  void enter(kvstore::Mode& mode, data::Loader& loader, const TicketPlan& plan);
  // Every worker calls it, when all have come to the state of the last meeting: they have the
  // newest weights, and the same running statistics. `is_new`: this worker had another state.
  void come_together(bool is_new);

 private:
  struct Own;
  std::vector<Own> all_of(const Own& own);
  void work(std::int64_t newest, Own& own, const TicketHooks& hooks);
  std::size_t ahead(std::int64_t newest, std::int64_t end) const;
  bool compute(const kvstore::OutOfStep::Dealt& dealt, Own& own, const TicketHooks& hooks);
  Stretch meet(Own& own, const TicketHooks& hooks);
  kvstore::PushesSeen seen() const;
  void take_statistics(const std::vector<Own>& all);

  kvstore::Group* group_;
  kvstore::OutOfStep* office_;
  StepEngine& engine_;
  data::Loader* loader_;
  TicketPlan plan_;
  std::int64_t tickets_ = 0;     // of this worker, since the statistics were the same everywhere
  kvstore::PushesSeen earlier_;  // of this worker, in other generations
};

}  // namespace lockstep::train::detail
