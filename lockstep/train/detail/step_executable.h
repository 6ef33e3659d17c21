// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "lockstep/base/shard_tree.h"
#include "lockstep/graph/executable.h"
#include "lockstep/train/step_graph.h"

namespace lockstep::train::detail {

// Consecutive segments, [lo, hi).
struct SegmentRange {
  std::int32_t lo = 0, hi = 1;
  bool operator==(const SegmentRange&) const = default;
};

// Stages have segments in order, as evenly as it goes.
SegmentRange segments_of_stage(std::int64_t segments, int stages, int stage);

// The segments of a step that was traced with cuts.
Segments segments_of(const StepGraph& step);

// A shard's step, compiled: one executable, or one for each segment of a net that is cut, each of
// which runs in two parts, its forward and its backward pass. It is used as an Executable is;
// inputs, outputs, states and deliveries are those of the whole step. Of a worker that has some of
// the segments alone, what the others have is not there: it runs pass by pass.
class StepExecutable {
 public:
  // Of a worker that has these segments alone, or these slices of them.
  static StepExecutable compile(const StepGraph& step, const CompileOptions& options,
                                std::optional<SegmentRange> own = {},
                                std::optional<ShardRange> slices = {});
  static StepExecutable compile(const StepGraph& step, const CompileOptions& options,
                                const StepExecutable& like);
  StepExecutable clone() const;
  StepExecutable clone(const StepExecutable& like) const;
  StepExecutable(StepExecutable&&) noexcept;
  StepExecutable& operator=(StepExecutable&&) noexcept;
  ~StepExecutable();

  void run_into(TensorList inputs, TensorList outputs, const Executable::Receiver& receiver);
  void begin(TensorList inputs, TensorList outputs);
  bool go_on(const Executable::Receiver& receiver);
  std::optional<NonFinite> find_non_finite(TensorList inputs);

  // Pass by pass, after begin: what the forward pass of these segments reads of those below is in
  // place, and so is what the backward pass reads of those above.
  void run_forward();
  // All of it where `again`: the forward passes first, whose values somebody else has used since.
  void run_backward(bool again, const Executable::Receiver& receiver);
  // The same in two halves, where CompileOptions::deliveries_last is set: what goes below, then the
  // gradients that are delivered.
  void run_backward_of_inputs(bool again);
  void run_backward_of_weights(const Executable::Receiver& receiver);
  // One part after the other: the segments that are here, from 0; of a net that is not cut, one
  // part whose forward pass runs with its backward pass.
  std::size_t parts() const { return parts_.size(); }
  std::size_t part_of(std::size_t state) const;
  void run_forward(std::size_t part);
  void run_backward(std::size_t part, const Executable::Receiver& receiver);
  // The part's states were changed in their memory.
  void states_changed(std::size_t part) { parts_[part].refresh(); }
  // That come from below or go there, or above: in the order in which both sides have them.
  std::vector<Tensor> from_below() const, to_above() const, from_above() const, to_below() const;
  const SegmentRange& segments() const;
  std::int32_t all_segments() const;

  // Whether this worker has the state; and which segment has it.
  bool has_state(std::size_t input) const;
  std::int32_t segment_of(std::size_t input) const;
  // Of the whole step's outputs that a run returns: whether this worker makes it.
  bool makes_output(std::size_t output) const;
  void set_state(std::size_t input, const Tensor& value);
  Tensor state(std::size_t input) const;
  std::span<std::byte> state_memory(std::size_t input) const;
  void set_state_memory(std::size_t input, std::span<std::byte> memory);
  void pack(std::size_t input, const Tensor& value, std::span<std::byte> bytes) const;
  Tensor unpack(std::size_t input, std::span<const std::byte> bytes) const;
  void refresh(std::size_t part);
  std::size_t refresh_parts() const;
  void set_fresh();
  bool is_fresh() const;

  const Infos& output_infos() const;
  std::vector<std::size_t> delivery_order() const;
  std::size_t arena_bytes() const;
  std::size_t values_bytes() const;  // of what passes between segments
  std::size_t state_bytes() const;
  // Of the first segment that is here.
  const Executable& first() const;

 private:
  struct Plan;
  struct Local {
    Executable& executable;
    std::size_t input;
  };
  StepExecutable(std::shared_ptr<const Plan> plan, std::vector<Executable> parts);
  static StepExecutable compile(const StepGraph& step, const CompileOptions& options,
                                SegmentRange own, std::optional<ShardRange> slices,
                                const StepExecutable* like);
  static StepExecutable compile_slices(const StepGraph& step, const CompileOptions& options,
                                       ShardRange slices, const StepExecutable* like);
  void make_values();
  void take_states(std::size_t part);
  void begin_part(std::size_t part);
  void forward(std::size_t part);
  bool backward(std::size_t part, const Executable::Receiver& receiver);
  std::vector<Tensor> inputs_of(std::size_t part) const;
  Local local(std::size_t input) const;
  std::vector<Tensor> values_at(const std::vector<std::size_t>& numbers) const;

  std::shared_ptr<const Plan> plan_;
  mutable std::vector<Executable> parts_;
  std::vector<Tensor> values_;  // that cross, by number; undefined where they do not come here
  std::vector<Tensor> inputs_, outputs_;
  std::size_t next_ = 0;  // pass of the run under way: forward by part, then backward
};

}  // namespace lockstep::train::detail
