// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/step_engine.h"

#include <algorithm>

#include "lockstep/base/float_mode.h"
#include "lockstep/kvstore/mesh_mode.h"
#include "lockstep/train/detail/cost_meter.h"
#include "lockstep/train/detail/engine_parts.h"
#include "lockstep/train/detail/same_shapes.h"

namespace lockstep::train {

void check_shares(std::int64_t shards, int threads, int workers) {
  if (shards < 1) throw InvalidArgument("train: at least 1 shard is needed, got {}", shards);
  if (threads < 1) throw InvalidArgument("train: at least 1 thread is needed, got {}", threads);
  if (workers > shards)
    throw InvalidArgument("train: {} workers cannot share {} shards: each needs one", workers,
                          shards);
}

StepEngine::StepEngine(nn::BlockPtr net, LossFunction loss, optim::OptimizerPtr optimizer,
                       const std::vector<TensorInfo>& fields, const EngineOptions& options) {
  check_shares(options.shards, options.threads,
               options.mode == nullptr ? 1 : kvstore::replicas_of(*options.mode));
  impl_ = std::make_unique<Impl>(net, std::move(loss), std::move(optimizer), fields, options);
}

StepEngine::~StepEngine() = default;

void StepEngine::replan(kvstore::Mode& mode, std::int64_t shards) {
  impl_->options.shards = shards;
  replan(mode);
}

void StepEngine::replan(kvstore::Mode& mode) {
  check_shares(impl_->options.shards, impl_->options.threads, kvstore::replicas_of(mode));
  impl_->mode = &mode;
  if (impl_->plan) impl_->keep_unsent();
  impl_->make_plan();
  impl_->send_what_was_kept();
}

StepResult StepEngine::run(std::int64_t step, double learning_rate,
                           std::span<const data::Fields> shards, const StepWishes& wishes) {
  impl_->check_plan();
  detail::StepPlan& plan = *impl_->plan;
  const auto expected = static_cast<std::size_t>(plan.range().hi - plan.range().lo);
  if (shards.size() != expected)
    throw InvalidArgument("train: a step needs the batches of {} shards, got {}", expected,
                          shards.size());
  const FlushSubnormals flush;
  const detail::CostMeter meter(impl_->mode->group().meter());
  impl_->compute(step, learning_rate, shards);
  plan.fill_rows();
  const kvstore::Vote own{.finite = plan.is_finite(),
                          .stop = wishes.stop,
                          .pause = wishes.pause,
                          .shape = detail::number_of_shape(impl_->program.fields())};
  const kvstore::Vote vote = impl_->synchronizer->commit(own, plan.rows(), plan.team());
  if (vote.shape == kvstore::Vote::kShapesDiffer)
    detail::check_same_shapes(impl_->mode->group(), impl_->program.fields());
  if (vote.finite) impl_->take_over(plan.mean_statistics());
  return {.loss = plan.mean_of(StepGraph::kLoss),
          .accuracy = plan.mean_of(StepGraph::kAccuracy),
          .finite = vote.finite,
          .stop = vote.stop,
          .pause = vote.pause,
          .cost = impl_->cost(meter)};
}

void StepEngine::align(std::int64_t steps) {
  impl_->check_plan();
  impl_->synchronizer->align(steps);
}

void StepEngine::take_over(const nn::Block& net,
                           const std::vector<std::pair<std::string, Tensor>>& slots) {
  impl_->program.load(net);
  if (impl_->mode->slot_place() == kvstore::SlotPlace::here) set_slots(slots);
}

void StepEngine::pull() {
  impl_->check_plan();
  impl_->synchronizer->pull();
  impl_->program.use_weights(impl_->state);
}

const std::vector<std::string>& StepEngine::cuts() const { return impl_->program.step().cuts; }

std::vector<std::int32_t> StepEngine::segments_of_parameters() const {
  const StepGraph& step = impl_->program.step();
  std::vector<std::int32_t> segments;
  if (step.cuts.empty() || step.slices > 1) return segments;
  for (std::size_t i = 0; i < step.parameters.size(); ++i)
    segments.push_back(impl_->program.first().segment_of(step.parameter_input(i)));
  return segments;
}

const FieldRoles& StepEngine::fields() const { return impl_->program.step().roles; }

bool StepEngine::shards_meet() const { return impl_->program.step().shards_meet; }

bool StepEngine::has_accuracy() const { return impl_->program.step().has_accuracy; }

const std::vector<BatchNormSize>& StepEngine::batch_norm_sizes() const {
  return impl_->program.batch_norm_sizes();
}

bool StepEngine::is_partial() const { return impl_->units.has_value() || impl_->has_part(); }

WaitedTime StepEngine::waited() const { return impl_->plan ? impl_->plan->waited() : WaitedTime{}; }

std::size_t StepEngine::plans() const { return impl_->program.plans(); }
std::int64_t StepEngine::shards() const { return impl_->options.shards; }
ShardRange StepEngine::range() const { return impl_->plan->range(); }
int StepEngine::threads() const { return impl_->plan->team().size(); }
double StepEngine::flops_per_sample() const { return impl_->program.flops_per_sample(); }
const Executable& StepEngine::executable() const { return impl_->program.first().first(); }

std::size_t StepEngine::step_bytes() const {
  const std::size_t buffers = impl_->state.buffers() + impl_->synchronizer->buffers();
  return impl_->program.bytes() + impl_->plan->bytes() +
         (impl_->units ? impl_->units->bytes() : 0) +
         buffers * impl_->layout().floats * sizeof(float) + impl_->state.owned_bytes() +
         impl_->synchronizer->bytes() + impl_->state.tables().bytes();
}

}  // namespace lockstep::train
