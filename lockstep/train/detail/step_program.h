// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "lockstep/base/recent_list.h"
#include "lockstep/base/thread_team.h"
#include "lockstep/kvstore/flat_state.h"
#include "lockstep/nn/structure.h"
#include "lockstep/train/detail/step_executable.h"

namespace lockstep::train::detail {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

// What is compiled of a training step: a shard's graph for each shape of batch, executables for it,
// where the parameters are. All shapes have the same parameters, in the layouts that the first one
// chose, and the same memory to compute in, since a step has one shape. Of shapes that were not
// used for a while, CompileOptions::plans tells how many stay compiled. A net whose hooks or modes
// have changed is traced again. It knows nothing of who computes which shards.
class StepProgram {
 public:
  StepProgram(nn::BlockPtr net, LossFunction loss, const std::vector<TensorInfo>& fields,
              CompileOptions options, FieldRoles roles = {}, std::vector<std::string> cuts = {},
              std::optional<SegmentRange> own = {}, SlicePlan slices = {},
              std::optional<ShardRange> own_slices = {});

  // The first shape's, without its graph.
  const StepGraph& step() const { return step_; }
  const LossFunction& loss() const { return loss_; }
  double flops_per_sample() const { return flops_per_sample_; }
  const std::vector<BatchNormSize>& batch_norm_sizes() const { return batch_norm_sizes_; }

  // From now on shards are like `fields`, and the net is as it stands; what is compiled is taken or
  // made. Throws InvalidArgument when other parameters are trained than in the first one.
  void select(const std::vector<TensorInfo>& fields);
  const std::vector<TensorInfo>& fields() const { return plan().fields; }
  // Of shards like them: of which table each lookup is, in the order of the outputs.
  const std::vector<std::size_t>& lookups() const { return plan().lookups; }
  // Shapes that are compiled now.
  std::size_t plans() const { return plans_.size(); }
  // As many as there are uses for at once, all over the same parameters, in every shape.
  // With `arenas` they compute in so many, number i in that of i % arenas, one at a time in each.
  void make_executables(std::size_t uses, std::size_t arenas = 0);
  // Number `i` of them. Threads may ask for theirs at once.
  StepExecutable& executable(std::size_t i) { return plan().executables[i]; }
  const StepExecutable& first() const { return plan().executables.front(); }
  std::size_t bytes() const;

  // Of the parameters that learn, in the order in which their gradients are made. With
  // `find_unused` it knows the places that are no parameter's.
  kvstore::FlatLayout make_layout(bool find_unused) const;
  // The parameter of delivery number `i`.
  std::size_t number_of(std::size_t i) const { return number_of_[i]; }
  const std::string& name_of(const kvstore::FlatParameter& parameter) const {
    return step_.parameters[parameter.number].name;
  }
  const std::string& name_of(const kvstore::RowTable& table) const {
    return step_.parameters[table.number].name;
  }

  // From now on the weights that learn are those of the state.
  void use_weights(const kvstore::FlatState& state) noexcept;
  // Of weights that are shared: where one of them is while its segment is computed, and in which of
  // the executables' parts; and that those of a part are others now.
  void use_memory(const kvstore::FlatParameter& parameter, float* memory);
  std::size_t part_of(const kvstore::FlatParameter& parameter) const {
    return first().part_of(input_of(parameter.number));
  }
  void weights_changed(std::size_t part) { plan().executables[0].states_changed(part); }
  // New running statistics: the values of StepGraph::updated, in order.
  void set_statistics(const std::vector<Tensor>& values);
  std::vector<Tensor> statistics() const;  // on the host
  // What executables keep of the weights in other layouts is made anew, where weights have changed;
  // the threads share the work.
  void refresh(ThreadTeam& team);

  void store(nn::Block& net) const;
  void load(const nn::Block& net);
  // The same where workers share the weights: those of this worker's pieces go to the state.
  void load(const nn::Block& net, kvstore::FlatState& state);
  // Those that are here, in the order of the step's. What is cut is there slice by slice
  // (detail/slice_names.h); so it is in what append_flat() gives.
  NamedTensors parameters() const;
  // The net's, in the order of the step's. Throws NotFound.
  std::vector<nn::Parameter> parameters_of(const nn::Block& net) const;
  Tensor parameter(std::size_t number) const;
  // Whether the worker's segments have the parameter with this number.
  bool has(std::size_t parameter) const { return first().has_state(input_of(parameter)); }

  // Tensors in plain layout from and to a flat buffer: "prefix/fc1.weight", by the order of the
  // net's parameters. set_flat() throws Corrupt when a name is missing or a shape differs. The
  // others do so for numbers of all tables, one after the other.
  void append_flat(const kvstore::FlatLayout& layout, const std::string& prefix,
                   std::span<const float> flat, NamedTensors& tensors) const;
  void set_flat(const kvstore::FlatLayout& layout, const std::string& prefix,
                const NamedTensors& tensors, std::span<float> flat) const;
  using TableNumbers = std::function<std::span<const float>(std::size_t table)>;
  void append_tables(const kvstore::FlatLayout& layout, const std::string& prefix,
                     const TableNumbers& numbers, NamedTensors& tensors) const;
  using SetTable = std::function<void(std::size_t table, std::span<const float> numbers)>;
  void set_tables(const kvstore::FlatLayout& layout, const std::string& prefix,
                  const NamedTensors& tensors, const SetTable& set) const;

  // Of where each element of each parameter lies.
  std::string layouts_sha256(const kvstore::FlatLayout& layout) const;

 private:
  struct Plan {
    std::vector<TensorInfo> fields;
    nn::Structure structure;  // of the net and the loss
    std::deque<StepExecutable> executables;
    std::vector<std::size_t> lookups;
  };
  const Plan& plan() const { return *plans_.last_used(); }
  Plan& plan() { return *plans_.last_used(); }
  std::vector<std::size_t> delivery_order() const;
  Plan make_plan(const std::vector<TensorInfo>& fields);
  StepExecutable new_clone(std::size_t i) const;
  void look_at_structure();
  void check_multipliers() const;
  void check_trains_the_same() const;
  std::size_t input_of(std::size_t parameter) const { return step_.parameter_input(parameter); }
  void pack(const kvstore::FlatParameter& parameter, const Tensor& tensor, float* data) const;
  Tensor unpack(const kvstore::FlatParameter& parameter, const float* data) const;
  using TensorsByName = std::unordered_map<std::string, Tensor>;
  const Tensor& find(const TensorsByName& tensors, const std::string& name,
                     std::size_t parameter) const;

  nn::BlockPtr net_;
  LossFunction loss_;  // it may have parameters too
  FieldRoles roles_;
  std::vector<std::string> cuts_;
  SlicePlan slices_;
  CompileOptions options_;
  StepGraph step_;
  double flops_per_sample_ = 0.0;
  std::vector<BatchNormSize> batch_norm_sizes_;
  std::vector<nn::Parameter> trained_;  // in the order of the step's
  nn::Structure first_structure_;
  nn::Structure structure_;  // as it was last looked at
  RecentList<Plan> plans_;
  std::size_t uses_ = 1;                // executables of a plan
  std::size_t arenas_ = 0;              // 0: each has its own
  std::vector<std::size_t> number_of_;  // by delivery
  std::vector<bool> has_gradient_;      // by delivery; of the first shape
};

}  // namespace lockstep::train::detail
