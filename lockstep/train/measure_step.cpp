// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/measure_step.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/float_mode.h"
#include "lockstep/kvstore/group_sum.h"
#include "lockstep/kvstore/tree_sum.h"
#include "lockstep/ops/random_ops.h"
#include "lockstep/ops/slice_ops.h"
#include "lockstep/train/detail/step_program.h"
#include "lockstep/train/plan_segments.h"

namespace lockstep::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

template <class Work>
double time_of(const Work& work) {
  const Clock::time_point begin = Clock::now();
  work();
  return seconds_since(begin);
}

CompileOptions compile_options(const MeasureOptions& options) {
  CompileOptions compile;
  compile.prologue = options.shards > 1;
  if (options.bfloat16) compile.compute = DType::bfloat16;
  return compile;
}

// What another segment would have made: numbers that are no zeros.
void fill(const std::vector<Tensor>& values) {
  const RandomScope draws(random_key(2));
  for (const Tensor& value : values) {
    if (value.dtype() != DType::float32) continue;
    const Tensor drawn = normal(value.shape());
    std::memcpy(value.data<float>(), drawn.data<float>(), value.info().bytes());
  }
}

// The slices of the worker that is measured; none: all are its.
std::optional<ShardRange> measured_slices(const MeasureOptions& options) {
  if (options.tensor == 1) return {};
  return deal_shards(options.slices, options.tensor)[0];
}

SlicePlan slice_plan(nn::Block& net, const LossFunction& loss, const data::Fields& batch,
                     const MeasureOptions& options) {
  return plan_slices(net, loss, data::infos_of(batch), options.roles, options.slices,
                     options.splits);
}

// Where nobody else is: what the others would bring is as the first one's, and what would travel is
// counted.
class CountedSlices final : public SliceMeeting {
 public:
  void sum(std::span<const std::span<const float>> own, std::span<float> result) override {
    kvstore::sum_in_tree({own.begin(), own.end()}, result);
    counted_.sum_bytes += static_cast<double>(result.size_bytes());
    ++counted_.sums;
  }
  void gather(std::span<std::byte> all, std::span<const std::size_t> sizes) override {
    for (std::size_t k = 0, begin = 0; k < sizes.size(); begin += sizes[k++])
      std::memmove(all.data() + begin, all.data(), std::min(sizes[0], sizes[k]));
    counted_.gather_bytes += static_cast<double>(all.size());
    ++counted_.gathers;
  }
  // Since it was asked last.
  parallel::SliceTransfers take() { return std::exchange(counted_, {}); }

 private:
  parallel::SliceTransfers counted_;
};

// One segment's step: its passes over a shard, gradients added to those of another one, the rule.
class SegmentMeter {
 public:
  SegmentMeter(const nn::BlockPtr& net, const LossFunction& loss, const optim::OptimizerPtr& rule,
               const data::Fields& batch, const MeasureOptions& options, int segment)
      : is_cut_(!options.cuts.empty()),
        program_(net, loss, data::infos_of(batch), compile_options(options), options.roles,
                 options.cuts,
                 is_cut_ ? std::optional(detail::SegmentRange{segment, segment + 1}) : std::nullopt,
                 slice_plan(*net, loss, batch, options), measured_slices(options)),
        state_(program_.make_layout(false), rule),
        sums_(options.rounds > 0 ? state_.layout().floats : 0),
        inputs_(batch.begin(), batch.end()) {
    if (program_.step().shards_meet)
      throw Unsupported(
          "plan: shards of this net wait for each other (sync_batch_norm), and are not measured "
          "one by one");
    program_.use_weights(state_);
    if (options.rounds == 0) return;
    program_.load(*net);
    inputs_.push_back(random_key(0));
    for (const TensorInfo& info : program_.first().output_infos())
      outputs_.push_back(Tensor::zeros(info.shape, info.dtype, info.device));
    if (!is_cut_) return;
    fill(program_.first().from_below());
    fill(program_.first().from_above());
  }

  parallel::SegmentCost measure(int rounds) {
    parallel::SegmentCost cost = bytes();
    if (rounds == 0) return cost;
    refresh();
    run_once();  // as the first time, everything is cold
    double best = std::numeric_limits<double>::infinity();
    for (int round = 0; round < rounds; ++round) {
      const Passes passes = run_once();
      if (passes.forward + passes.backward >= best) continue;
      best = passes.forward + passes.backward;
      take(passes, cost);
    }
    cost.update_s = update_seconds(rounds);
    program_.use_weights(state_);
    cost.refresh_s = refresh();
    return cost;
  }

  std::size_t table_bytes() const { return state_.tables().bytes(); }
  std::size_t row_bytes() const {
    std::size_t floats = 1;
    for (std::size_t i = 0; i < program_.step().ids_output(0); ++i)
      floats += static_cast<std::size_t>(program_.first().output_infos()[i].shape.numel());
    return floats * sizeof(float);
  }
  bool rule_is_local() const { return state_.is_local(); }

 private:
  struct Passes {
    double forward = 0.0, backward = 0.0;
    parallel::SliceTransfers forward_slices = {}, backward_slices = {};
    std::vector<double> made;  // when each gradient was, from the begin of the backward pass on
  };

  parallel::SegmentCost bytes() const {
    const detail::StepExecutable& one = program_.first();
    parallel::SegmentCost cost;
    cost.floats = state_.layout().floats;
    for (const kvstore::FlatParameter& parameter : state_.layout().parameters)
      cost.gradients.push_back({parameter.count, 1.0});
    cost.arena_bytes = one.arena_bytes();
    cost.fixed_bytes = program_.bytes() - one.arena_bytes() - one.values_bytes();
    return cost;
  }

  // A net that is not cut runs as one program: a third of it is taken for the forward pass.
  Passes run_once() {
    detail::StepExecutable& one = program_.executable(0);
    CountedSlices slices;
    const SliceMeetingScope meeting(slices);
    Passes passes;
    const Clock::time_point begin = Clock::now();
    one.begin(inputs_, outputs_);
    if (is_cut_) one.run_forward();
    passes.forward = is_cut_ ? seconds_since(begin) : 0.0;
    passes.forward_slices = slices.take();
    passes.made.resize(state_.layout().parameters.size());
    const Executable::Receiver receiver = [&](std::size_t delivery,
                                              std::span<const std::byte> bytes) {
      const std::size_t number = program_.number_of(delivery);
      add(number, reinterpret_cast<const float*>(bytes.data()));
      passes.made[number] = seconds_since(begin) - passes.forward;
    };
    if (is_cut_)
      one.run_backward(false, receiver);
    else
      while (one.go_on(receiver)) continue;
    passes.backward = seconds_since(begin) - passes.forward;
    passes.backward_slices = slices.take();
    if (!is_cut_) split(passes);
    return passes;
  }

  static void split(Passes& passes) {
    passes.forward = passes.backward / 3.0;
    passes.backward -= passes.forward;
    for (double& made : passes.made) made = std::max(0.0, made - passes.forward);
  }

  void add(std::size_t number, const float* values) {
    const kvstore::FlatParameter& parameter = state_.layout().parameters[number];
    float* const sum = sums_.data() + parameter.offset;
    const float* const term[] = {sum};
    kvstore::add_leaf({values, parameter.count}, term, sum, false);
  }

  static void take(const Passes& passes, parallel::SegmentCost& cost) {
    cost.forward_s = passes.forward;
    cost.backward_s = passes.backward;
    cost.forward_slices = passes.forward_slices;
    cost.backward_slices = passes.backward_slices;
    for (std::size_t i = 0; i < passes.made.size(); ++i)
      cost.gradients[i].at = std::min(1.0, passes.made[i] / std::max(passes.backward, 1e-12));
  }

  double refresh() {
    return time_of([&] { program_.refresh(team_); });
  }

  // Without tables of rows, whose update depends on the batch.
  double update_seconds(int rounds) {
    std::fill_n(sums_.data(), state_.layout().floats, 1e-3F);
    double best = std::numeric_limits<double>::infinity();
    for (int round = 0; round <= rounds; ++round)
      best = std::min(best, time_of([&] {
                        state_.begin(round, 0.0, 1);
                        state_.update_all(
                            team_, [&](int, std::size_t offset) { return sums_.data() + offset; });
                      }));
    return best;
  }

  bool is_cut_;
  detail::StepProgram program_;
  kvstore::FlatState state_;
  kvstore::FlatBuffer sums_;
  std::vector<Tensor> inputs_, outputs_;
  ThreadTeam team_{1};
};

void add_crossing(const StepGraph& step, const std::optional<ShardRange>& slices,
                  parallel::StepCosts& costs) {
  Segments cut = detail::segments_of(step);
  for (CrossingValue& value : cut.values)
    if (slices && value.slice >= slices->hi) value.info.shape = {0};  // another worker has it
  for (const CrossingValue& value : cut.values)
    costs.crossing.push_back({value.info.bytes(), value.lowest, value.highest});
  for (std::size_t s = 0; s < costs.segments.size(); ++s) {
    if (s > 0) costs.segments[s].begins_with = step.cuts[s - 1];
    if (s + 1 == costs.segments.size()) continue;
    costs.segments[s].bytes_up = crossing_bytes(cut, cut.going_up(static_cast<std::int32_t>(s)));
    costs.segments[s].bytes_down =
        crossing_bytes(cut, cut.going_down(static_cast<std::int32_t>(s)));
  }
}

}  // namespace

parallel::StepCosts measure_step(const nn::BlockPtr& net, const LossFunction& loss,
                                 const optim::OptimizerPtr& rule, const data::Fields& batch,
                                 const MeasureOptions& options) {
  const FlushSubnormals flush;
  parallel::StepCosts costs;
  costs.slots = rule->slots();
  costs.slices = static_cast<int>(options.slices);
  for (std::size_t s = 0; s <= options.cuts.size(); ++s) {
    SegmentMeter meter(net, loss, rule, batch, options, static_cast<int>(s));
    costs.segments.push_back(meter.measure(options.rounds));
    costs.table_bytes += meter.table_bytes();
    costs.row_bytes = meter.row_bytes();
    costs.rule_is_local = meter.rule_is_local();
  }
  if (!options.cuts.empty())
    add_crossing(trace_step(*net, loss, data::infos_of(batch), options.roles, options.cuts,
                            slice_plan(*net, loss, batch, options)),
                 measured_slices(options), costs);
  return costs;
}

std::size_t count_floats(const StepGraph& step) {
  std::size_t floats = 0;
  for (const std::size_t place : step.trainable)
    floats += static_cast<std::size_t>(step.parameters[place].shape.numel());
  return floats;
}

parallel::ClusterModel measure_machine() {
  constexpr std::size_t kFloats = std::size_t{1} << 22;
  constexpr int kRounds = 5;
  std::vector<float> from(kFloats, 1.0F), to(kFloats, 2.0F);
  const float* const term[] = {to.data()};
  double add = std::numeric_limits<double>::infinity(), copy = add;
  for (int round = 0; round < kRounds; ++round) {
    add = std::min(add, time_of([&] { kvstore::add_leaf(from, term, to.data(), false); }));
    copy = std::min(copy, time_of([&] { std::memcpy(to.data(), from.data(), kFloats * 4); }));
  }
  parallel::ClusterModel machine;
  machine.add_bytes_per_s = static_cast<double>(kFloats * 4) / add;
  machine.inside.bytes_per_s = static_cast<double>(kFloats * 4) / copy;
  return machine;
}

}  // namespace lockstep::train
