// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lockstep/kvstore/mesh_mode.h"
#include "lockstep/train/detail/all_parameters.h"
#include "lockstep/train/detail/cost_meter.h"
#include "lockstep/train/detail/step_plan.h"
#include "lockstep/train/step_engine.h"

namespace lockstep::train {

// What an engine is made of. Its functions are in step_engine.cpp (the step), engine_state.cpp
// (what is kept between steps) and engine_findings.cpp (what was wrong).
struct StepEngine::Impl {
  Impl(const nn::BlockPtr& net, LossFunction loss, optim::OptimizerPtr rule,
       const std::vector<TensorInfo>& fields, const EngineOptions& given);

  EngineOptions options;
  std::unique_ptr<kvstore::Mode> alone;  // where no mode was given
  kvstore::Mode* mode;
  detail::StepProgram program;
  kvstore::FlatState state;
  std::optional<detail::WeightUnits> units;  // where workers share the weights
  std::optional<detail::AllParameters> everybodys;
  std::unique_ptr<kvstore::Synchronizer> synchronizer;
  std::unique_ptr<detail::StepPlan> plan;  // null: the last replan failed
  std::vector<float> unsent;               // between two synchronizers

  void load(const nn::Block& net);
  void make_plan();
  void check_plan() const;

  // Whether others of its replica have parts of the net that this worker has not.
  bool has_part() const { return kvstore::mesh_links_of(*mode) != nullptr; }
  // What this worker has not sent goes with it into the next membership.
  void keep_unsent();
  void send_what_was_kept();

  const kvstore::FlatLayout& layout() const { return state.layout(); }
  std::size_t slots() const { return static_cast<std::size_t>(state.rule().slots()); }
  // Where a replan has failed, they are here or nowhere.
  std::span<const float> slot(std::size_t number) const;
  void set_slot(std::size_t number, std::span<const float> values);
  std::span<const float> table_slot(std::size_t number, std::size_t table) const;
  void set_table_slot(std::size_t number, std::size_t table, std::span<const float> values);
  // Those that are here, slice by slice.
  detail::NamedTensors own_slots() const;

  // The step counts: its weights, statistics and what is made of them are the engine's from now on.
  void take_over(const std::vector<Tensor>& statistics);
  // All shards of a step have one shape, which may be another than that of the step before.
  void select_shape(std::span<const data::Fields> shards);
  // Where others have parts of what a step needs, they hear at once that it has failed here.
  void compute(std::int64_t step, double learning_rate, std::span<const data::Fields> shards);
  // Whether the step got as far as to compute these: their shape is refused before.
  bool have_selected_shape(std::span<const data::Fields> shards) const;
  // Of the step that has just been committed.
  std::optional<StepCost> cost(const detail::CostMeter& meter) const;

 private:
  void check_possible(const EngineOptions& given) const;
  int agreed_threads(const ShardRange& range) const;
  void check_slots_are_here() const;
  std::vector<TensorInfo> on_device(std::vector<TensorInfo> fields) const;
};

}  // namespace lockstep::train
