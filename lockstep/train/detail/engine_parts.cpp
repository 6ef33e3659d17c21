// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/detail/engine_parts.h"

#include <algorithm>

#include "lockstep/comm/agreement.h"
#include "lockstep/kvstore/mesh_mode.h"
#include "lockstep/train/detail/cost_meter.h"

namespace lockstep::train {
namespace {

using detail::NamedTensors;

bool shares_weights(const EngineOptions& options) {
  return options.mode != nullptr && options.mode->shares_weights();
}

CompileOptions compile_options(const EngineOptions& options) {
  CompileOptions compile = options.compile;
  // What is derived of all weights would be kept, too.
  compile.prologue = options.shards > 1 && !shares_weights(options);
  const kvstore::MeshLinks* links =
      options.mode == nullptr ? nullptr : kvstore::mesh_links_of(*options.mode);
  compile.deliveries_last = options.schedule == parallel::ScheduleKind::zero_bubble &&
                            links != nullptr && links->has_stages();
  return compile;
}

void check_same_shape(const std::vector<TensorInfo>& first, const std::vector<TensorInfo>& other,
                      std::int64_t first_shard, std::size_t number) {
  for (std::size_t i = 0; i < std::max(first.size(), other.size()); ++i) {
    const std::string a = i < first.size() ? first[i].str() : "nothing";
    const std::string b = i < other.size() ? other[i].str() : "nothing";
    if (a == b) continue;
    throw InvalidArgument(
        "train: field {} of shard {} is {}, of shard {} {}: all shards of a step have one shape "
        "(bucket_sampler with the global batch as its batch)",
        i, first_shard + static_cast<std::int64_t>(number), b, first_shard, a);
  }
}

// Of a worker that has some of the segments alone.
std::optional<detail::SegmentRange> own_segments(kvstore::Mode& mode,
                                                 const EngineOptions& options) {
  const kvstore::MeshLinks* links = kvstore::mesh_links_of(mode);
  if (links == nullptr || !links->has_stages()) return {};
  const auto segments = static_cast<std::int64_t>(options.cuts.size()) + 1;
  if (segments < links->stages())
    throw InvalidArgument(
        "train: a pipeline of {} workers needs as many segments, the net is cut into {}",
        links->stages(), segments);
  return detail::segments_of_stage(segments, links->stages(), links->stage());
}

// Of a worker that has some of the slices alone: in order, as evenly as it goes.
std::optional<ShardRange> own_slices(kvstore::Mode& mode, const EngineOptions& options) {
  const kvstore::MeshLinks* links = kvstore::mesh_links_of(mode);
  if (links == nullptr || !links->has_slices()) return {};
  if (options.slices < links->tensor())
    throw InvalidArgument("train: {} workers cannot share {} slice{}: each needs one",
                          links->tensor(), options.slices, options.slices == 1 ? "" : "s");
  return deal_shards(options.slices, links->tensor())[static_cast<std::size_t>(links->place())];
}

}  // namespace

StepEngine::Impl::Impl(const nn::BlockPtr& net, LossFunction loss, optim::OptimizerPtr rule,
                       const std::vector<TensorInfo>& fields, const EngineOptions& given)
    : options(given),
      alone(given.mode == nullptr ? kvstore::local_mode() : nullptr),
      mode(alone ? alone.get() : given.mode),
      program(net, loss, fields, compile_options(given), given.fields, given.cuts,
              own_segments(*mode, given),
              plan_slices(*net, loss, fields, given.fields, given.slices, given.splits),
              own_slices(*mode, given)),
      state(program.make_layout(mode->keeps_residuals()), std::move(rule), mode->slot_place(),
            shares_weights(given) ? kvstore::WeightPlace::shared : kvstore::WeightPlace::here) {
  check_possible(given);
  state.shares_weights() ? void(units.emplace(program, state.layout()))
                         : program.use_weights(state);
  everybodys.emplace(program, kvstore::mesh_links_of(*mode), units ? &*units : nullptr);
  make_plan();
  load(*net);
}

void StepEngine::Impl::check_possible(const EngineOptions& given) const {
  if (has_part() && !program.step().tables.empty())
    throw Unsupported(
        "train: {} has sparse gradients, which workers that have parts of a net do not train",
        program.step().parameters[program.step().tables[0]].name);
  if (shares_weights(given) && !program.step().tables.empty())
    throw Unsupported(
        "train: {} has sparse gradients, which workers that share the weights do not train",
        program.step().parameters[program.step().tables[0]].name);
  const kvstore::MeshLinks* links = kvstore::mesh_links_of(*mode);
  if (links != nullptr && links->has_slices() && program.step().shards_meet)
    throw Unsupported(
        "train: shards that meet (sync_batch_norm) are computed whole: no worker has some of "
        "their slices alone");
  if (given.slices > 1 &&
      (mode->keeps_residuals() || mode->slot_place() != kvstore::SlotPlace::here))
    throw Unsupported(
        "train: a net in slices is trained with local or allreduce sums, uncompressed, and all "
        "of the rule's state with every worker");
}

void StepEngine::Impl::load(const nn::Block& net) {
  units ? program.load(net, state) : program.load(net);
  if (synchronizer) synchronizer->weights_changed();
}

void StepEngine::Impl::make_plan() {
  plan.reset();
  synchronizer.reset();
  const ShardRange range = kvstore::range_of(*mode, options.shards);
  synchronizer = mode->synchronize(state, options.shards);
  plan = std::make_unique<detail::StepPlan>(
      program, *synchronizer,
      detail::PlanOptions{.shards = options.shards,
                          .range = range,
                          .threads = agreed_threads(range),
                          .seed = options.seed,
                          .bucket_bytes = options.bucket_bytes,
                          .group = &mode->group(),
                          .links = kvstore::mesh_links_of(*mode),
                          .pipeline = {options.schedule, options.recompute},
                          .units = units ? &*units : nullptr});
}

// Workers of a replica meet thread by thread: each has as many as the one with the fewest.
int StepEngine::Impl::agreed_threads(const ShardRange& range) const {
  auto threads = static_cast<int>(std::min<std::int64_t>(options.threads, range.hi - range.lo));
  if (kvstore::MeshLinks* links = kvstore::mesh_links_of(*mode))
    for (const std::string& its :
         comm::share_texts(links->whole_replica(), std::to_string(threads), links->options()))
      threads = std::min(threads, std::stoi(its));
  return threads;
}

void StepEngine::Impl::check_plan() const {
  check(plan != nullptr, "an engine without a plan: the last replan failed");
}

void StepEngine::Impl::keep_unsent() {
  const std::span<const float> own = synchronizer->residual();
  unsent.assign(own.begin(), own.end());
}

void StepEngine::Impl::send_what_was_kept() {
  const std::span<float> own = synchronizer->residual();
  if (own.size() == unsent.size()) std::copy(unsent.begin(), unsent.end(), own.begin());
  unsent = {};
}

std::span<const float> StepEngine::Impl::slot(std::size_t number) const {
  if (synchronizer) return synchronizer->slot(number);
  check_slots_are_here();
  return state.slot(number);
}

void StepEngine::Impl::set_slot(std::size_t number, std::span<const float> values) {
  if (synchronizer) return synchronizer->set_slot(number, values);
  check_slots_are_here();
  std::copy(values.begin(), values.end(), state.slot(number).begin());
}

std::span<const float> StepEngine::Impl::table_slot(std::size_t number, std::size_t table) const {
  if (synchronizer) return synchronizer->table_slot(number, table);
  check_slots_are_here();
  return state.tables().slot(number, table);
}

void StepEngine::Impl::set_table_slot(std::size_t number, std::size_t table,
                                      std::span<const float> values) {
  if (synchronizer) return synchronizer->set_table_slot(number, table, values);
  check_slots_are_here();
  std::ranges::copy(values, state.tables().slot(number, table).begin());
}

NamedTensors StepEngine::Impl::own_slots() const {
  NamedTensors result;
  for (std::size_t k = 0; k < slots(); ++k)
    program.append_flat(layout(), detail::slot_prefix(k), slot(k), result);
  for (std::size_t k = 0; k < slots(); ++k)
    program.append_tables(
        layout(), detail::slot_prefix(k), [&](std::size_t table) { return table_slot(k, table); },
        result);
  return result;
}

void StepEngine::Impl::check_slots_are_here() const {
  check(state.slots() == slots(), "slots of an engine without a plan: the last replan failed");
}

void StepEngine::Impl::take_over(const std::vector<Tensor>& statistics) {
  if (!units) program.use_weights(state);
  program.set_statistics(statistics);
}

void StepEngine::Impl::select_shape(std::span<const data::Fields> shards) {
  std::vector<TensorInfo> fields = data::infos_of(shards[0]);
  for (std::size_t s = 1; s < shards.size(); ++s)
    check_same_shape(fields, data::infos_of(shards[s]), plan->range().lo, s);
  program.select(on_device(std::move(fields)));
  program.refresh(plan->team());
}

void StepEngine::Impl::compute(std::int64_t step, double learning_rate,
                               std::span<const data::Fields> shards) {
  try {
    select_shape(shards);
    synchronizer->begin(step, learning_rate);
    plan->compute(step, shards);
  } catch (const std::exception& error) {
    if (units || has_part()) mode->abort(error.what());
    throw;
  }
}

std::vector<TensorInfo> StepEngine::Impl::on_device(std::vector<TensorInfo> fields) const {
  const Device& device = program.fields()[0].device;
  for (TensorInfo& info : fields) info.device = device;
  return fields;
}

std::optional<StepCost> StepEngine::Impl::cost(const detail::CostMeter& meter) const {
  const kvstore::Group& group = mode->group();
  if (group.workers() == 1 || has_part()) return {};
  return meter.finish(plan->computed_at(),
                      plan->seconds_of(group.membership().deal(options.shards)), group.rank());
}

bool StepEngine::Impl::have_selected_shape(std::span<const data::Fields> shards) const {
  return std::all_of(shards.begin(), shards.end(), [&](const data::Fields& shard) {
    return on_device(data::infos_of(shard)) == program.fields();
  });
}

}  // namespace lockstep::train
