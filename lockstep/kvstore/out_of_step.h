// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

namespace lockstep::kvstore {

class Mode;

// What workers that are not in step have seen of each other.
struct PushesSeen {
  std::uint64_t pushes = 0;
  // By how many pushes of others the weights that a gradient was computed with were older than
  // those that it met.
  std::uint64_t most_stale = 0, total_stale = 0;
  // Steps that a worker was ahead of the oldest one under way.
  std::uint64_t most_ahead = 0;
  // Pushes of all workers that the servers have applied, those that were lost since included.
  std::uint64_t applied = 0;

  double mean_stale() const {
    return pushes == 0 ? 0.0 : static_cast<double>(total_stale) / static_cast<double>(pushes);
  }
  void add(const PushesSeen& other);
};

// Tickets that are done, whoever did them.
struct TicketSums {
  std::int64_t tickets = 0;           // since they were opened
  double loss = 0.0, accuracy = 0.0;  // sums over them
};

// Workers that are not in step share the work by tickets: equal parts of the steps' batches,
// numbered through, each of which one worker computes alone. They are dealt in order to whoever
// asks; the gradient of a ticket is applied as it comes.
class OutOfStep {
 public:
  virtual ~OutOfStep() = default;

  // What one worker computes a ticket with: a group of one, whose steps are pushed to the servers
  // and bring the newest weights. Every worker makes its synchronizer, all at once.
  virtual Mode& alone() = 0;
  // Before the synchronizer is made: the run has had other workers, and goes on with what the
  // servers have of it.
  virtual void go_on() = 0;
  // Whether a worker must wait that is too far ahead.
  virtual bool is_bounded() const = 0;

  // Tickets [first, end) can be had, `per_step` of them being a step. Every worker calls it, when
  // those before are done. Of a run that goes on: those of them that are done already stay so.
  virtual void open(std::int64_t first, std::int64_t end, std::int64_t per_step) = 0;
  // Asks for a ticket; next() tells which, in the order of asking. `stop` is a wish: no step is
  // begun any more.
  virtual void ask(bool stop) = 0;
  struct Dealt {
    std::optional<std::int64_t> ticket = {};  // none: there are no more
    std::int64_t end = 0;                     // of the tickets that are dealt
    bool stop = false;                        // some worker wishes to
    std::uint64_t ahead = 0;                  // steps of the ticket's, of the oldest one under way
  };
  virtual bool is_ready() = 0;  // next() does not wait
  // Throws comm::Timeout and RequestFailed; where a worker is waited for, it is named.
  virtual Dealt next() = 0;
  // A ticket that was dealt is applied.
  virtual void end(std::int64_t ticket, double loss, double accuracy) = 0;
  // It cannot be done: nobody gets another one.
  virtual void give_up(std::int64_t ticket) = 0;

  // Returns when what this worker has ended is known to be.
  virtual void settle() = 0;
  // Every worker calls it, when all have settled.
  virtual TicketSums sums() = 0;
  // The same, after the weights were pulled: throws CommError where a server has not applied the
  // gradient of each ticket that is done, once.
  virtual void check_applied() const = 0;

  // Gradients since the run began, by the server that has most: when the weights were pulled last.
  virtual std::uint64_t most_applied() const = 0;

  // Of this worker, since alone()'s synchronizer was made.
  virtual const PushesSeen& seen() const = 0;
};

}  // namespace lockstep::kvstore
