// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "lockstep/comm/communicator.h"
#include "lockstep/kvstore/flat_state.h"
#include "lockstep/kvstore/group.h"
#include "lockstep/kvstore/out_of_step.h"

namespace lockstep::kvstore {

// Gradients in, weights out. It alone changes the weights that learn and what their rule keeps, and
// it has whatever keeps them together with those of the other workers. A step is begin, give for
// every part of the gradients, commit; what fails anywhere leaves the step before, whole.
class Synchronizer {
 public:
  virtual ~Synchronizer() = default;

  virtual FlatState& state() = 0;

  // Whether pieces may be given in any order, by any thread: nothing travels. Else whole
  // parameters, the same on every worker, in the order of the layout, by one thread at a time.
  virtual bool takes_pieces() const = 0;
  // Whether bytes go over a network, so that there is time for something else meanwhile.
  virtual bool waits_for_links() const { return false; }
  // Memory for a worker's only node (below), in which the sum over all workers may take its place;
  // empty where nothing is gained.
  virtual std::span<float> memory() { return {}; }

  virtual void begin(std::int64_t step, double rate) = 0;
  // The sum of a subtree of shards (base/shard_tree.h) that lies in this worker's range.
  struct Node {
    ShardRange shards;
    std::span<const float> sum;
  };
  // Sums of the floats from `offset` on. They stay where they are until commit(), unless pieces may
  // be given and the rule is local.
  virtual void give(std::size_t offset, std::span<const Node> nodes) = 0;
  // Of each of the state's tables in turn, the sums of this worker's subtrees. Called once in a
  // step, after all else was given, where there are tables. Throws Unsupported where the mode
  // cannot train them.
  virtual void give_rows(std::vector<std::vector<RowNode>> tables);
  // Everything is given. `rows` has a row for each shard, of which this worker has filled in its
  // own. Where all votes say so, the new weights are the weights; and all workers have all rows.
  virtual Vote commit(const Vote& own, std::span<float> rows, ThreadTeam& team) = 0;

  // Where weights are shared (Mode::shares_weights): those of the last committed step, from
  // `offset` on, come from whom they are while the caller does something else. Every worker calls
  // it, with the same place, one after the other.
  virtual comm::WorkPtr start_gathering(std::size_t offset, std::span<float> weights);

  // The last step's sums over all workers, as they arrived; empty where none travelled.
  virtual std::span<const float> sums() const { return {}; }
  // Of this worker: what was not sent yet of each float. Empty where everything is sent. Between
  // steps it may be changed.
  virtual std::span<float> residual() { return {}; }
  // Every worker calls it, between steps, before rank 0 asks for slots.
  virtual void collect_slots() {}
  // What the rule keeps for each float, after the last committed step; valid until the next call.
  // One worker may call it while the others do not.
  virtual std::span<const float> slot(std::size_t number) { return state().slot(number); }
  // Between steps, by every worker, with the same numbers.
  virtual void set_slot(std::size_t number, std::span<const float> values);
  // The same of one of the tables.
  virtual std::span<const float> table_slot(std::size_t number, std::size_t table) {
    return state().tables().slot(number, table);
  }
  virtual void set_table_slot(std::size_t number, std::size_t table, std::span<const float> values);
  // Of a new membership: its workers have done so many steps, and whoever else keeps numbers comes
  // to the same. By every worker.
  virtual void align(std::int64_t /*steps*/) {}
  // The state's weights were changed between steps, on every worker alike.
  virtual void weights_changed() {}
  // Between steps: the newest weights become the state's, where others may have changed them.
  virtual void pull() {}
  // Flat buffers besides those of the state.
  virtual std::size_t buffers() const { return 0; }
  // And what is no whole flat buffer.
  virtual std::size_t bytes() const { return 0; }
};

// How the workers of a job have the same weights: who they are, and what adds and updates. It
// outlives what it makes.
class Mode {
 public:
  virtual ~Mode() = default;
  virtual Group& group() = 0;
  // Every worker calls it, with the same layout. The state outlives the synchronizer, so that a
  // synchronizer of another membership can go on with it, also when making one has failed.
  virtual std::unique_ptr<Synchronizer> synchronize(FlatState& state, std::int64_t shards) = 0;
  // Whatever the others wait for ends with this reason, at once; so does what they begin.
  virtual void abort(const std::string& /*reason*/) {}
  // Of workers that are not in step: they compute with its alone(), and synchronize() throws
  // Unsupported. Null: they are in step.
  virtual OutOfStep* out_of_step() { return nullptr; }
  // Whether the bits are the same for any number of workers.
  virtual bool is_invariant() const { return true; }
  // What the bits depend on: "canonical", "ring", "2bit:0.01", "as they come".
  virtual std::string description() const { return "canonical"; }
  // Whether workers have the numbers that the rule keeps.
  virtual SlotPlace slot_place() const { return SlotPlace::here; }
  // Whether workers have the weights of their own pieces alone, between steps.
  virtual bool shares_weights() const { return false; }
  // Whether its synchronizers keep what they have not sent.
  virtual bool keeps_residuals() const { return false; }
  // The largest number that a gradient can have on its way.
  virtual double largest_sent() const;
};

// One process: sums are complete when they are given.
std::unique_ptr<Mode> local_mode();

}  // namespace lockstep::kvstore
