// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::parallel {

// What a parameter's gradient weighs, and when the backward pass has made it.
struct GradientCost {
  std::size_t floats = 0;
  double at = 1.0;  // part of its segment's backward pass
};

// What the slices of a layer bring together in a pass over a shard.
struct SliceTransfers {
  double sum_bytes = 0.0, gather_bytes = 0.0;
  int sums = 0, gathers = 0;
};

// What one segment of a net costs a worker: seconds of one thread, and bytes. Of workers that share
// its slices, the one that has the most.
struct SegmentCost {
  std::string begins_with = {};              // a block; empty: the input
  double forward_s = 0.0, backward_s = 0.0;  // of one shard
  double refresh_s = 0.0;                    // of a step: the weights' other layouts
  double update_s = 0.0;                     // of a step: the rule for all of its parameters
  std::vector<GradientCost> gradients = {};  // in the order in which they are made
  std::size_t floats = 0;                    // of a flat buffer of its parameters that learn
  std::size_t arena_bytes = 0;               // what a shard under way computes in
  std::size_t fixed_bytes = 0;               // statistics, and weights in other layouts
  std::size_t bytes_up = 0, bytes_down = 0;  // of a shard, to the segment above and from there
  SliceTransfers forward_slices = {}, backward_slices = {};  // where workers share the slices
};

// A value that goes between segments: every segment from `lowest` to `highest` has room for it.
struct CrossingCost {
  std::size_t bytes = 0;
  int lowest = 0, highest = 0;
};

// What a step costs that is cut like this, measured or made up.
struct StepCosts {
  std::vector<SegmentCost> segments = {};
  std::vector<CrossingCost> crossing = {};
  int slices = 1;
  int slots = 0;                // numbers that the rule keeps for each parameter
  bool rule_is_local = true;    // it needs no norm of all gradients
  std::size_t table_bytes = 0;  // of parameters that learn by rows
  std::size_t row_bytes = 0;    // of losses and statistics, of a shard
  std::size_t bucket_bytes = 4 << 20;

  double shard_seconds() const;  // forward and backward, all segments
  std::size_t floats() const;
};

}  // namespace lockstep::parallel
