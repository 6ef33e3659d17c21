// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/step_engine.h"

#include <algorithm>

#include "lockstep/base/float_mode.h"
#include "lockstep/base/sha256.h"
#include "lockstep/comm/agreement.h"
#include "lockstep/io/archive.h"
#include "lockstep/kvstore/sliced_mode.h"
#include "lockstep/kvstore/staged_mode.h"
#include "lockstep/kvstore/tree_sum.h"
#include "lockstep/ops/random_ops.h"
#include "lockstep/train/detail/all_parameters.h"
#include "lockstep/train/detail/bad_sample.h"
#include "lockstep/train/detail/cost_meter.h"
#include "lockstep/train/detail/run_state.h"
#include "lockstep/train/detail/same_shapes.h"
#include "lockstep/train/detail/slice_names.h"
#include "lockstep/train/detail/step_plan.h"

namespace lockstep::train {
namespace {

using detail::NamedTensors;

// Draws where an input has floats; the first class or word where a field has indices, which labels
// may have as floats.
data::Fields fixed_fields(const std::vector<TensorInfo>& infos, const FieldRoles& roles) {
  const RandomScope draws(random_key(0, 0, 0));
  data::Fields fields;
  for (std::size_t i = 0; i < infos.size(); ++i) {
    const auto& [shape, dtype, device] = infos[i];
    const bool is_drawn = dtype == DType::float32 && roles[i].role == FieldRole::input;
    fields.push_back((is_drawn ? normal(shape) : Tensor::zeros(shape, dtype)).to(device));
  }
  return fields;
}

bool shares_weights(const EngineOptions& options) {
  return options.mode != nullptr && options.mode->shares_weights();
}

CompileOptions compile_options(const EngineOptions& options) {
  CompileOptions compile = options.compile;
  // What is derived of all weights would be kept, too.
  compile.prologue = options.shards > 1 && !shares_weights(options);
  compile.deliveries_last = options.schedule == parallel::ScheduleKind::zero_bubble &&
                            options.mode != nullptr &&
                            kvstore::stage_links_of(*options.mode) != nullptr;
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

std::optional<detail::SegmentRange> segments_of_stage(kvstore::Mode& mode,
                                                      const EngineOptions& options) {
  const kvstore::StageLinks* links = kvstore::stage_links_of(mode);
  if (links == nullptr) return {};
  const auto segments = static_cast<std::int64_t>(options.cuts.size()) + 1;
  if (segments < links->stages())
    throw InvalidArgument(
        "train: a pipeline of {} workers needs as many segments, the net is cut into {}",
        links->stages(), segments);
  if (options.threads > 1)
    throw InvalidArgument("train: a pipeline's worker computes with 1 thread, got {}",
                          options.threads);
  return detail::segments_of_stage(segments, links->stages(), links->stage());
}

// Workers of a replica have slices in order, as evenly as it goes.
std::optional<ShardRange> slices_of_worker(kvstore::Mode& mode, const EngineOptions& options) {
  const kvstore::SliceLinks* links = kvstore::slice_links_of(mode);
  if (links == nullptr) return {};
  if (options.slices < links->workers())
    throw InvalidArgument("train: {} workers cannot share {} slice{}: each needs one",
                          links->workers(), options.slices, options.slices == 1 ? "" : "s");
  if (!options.cuts.empty())
    throw Unsupported(
        "train: workers that share slices have all segments: a net that is cut is not theirs");
  return deal_shards(options.slices, links->workers())[static_cast<std::size_t>(links->place())];
}

// The tensors of all workers of a replica, in their order.
NamedTensors from_all_parts(comm::Communicator& replica, const comm::CallOptions& options,
                            const NamedTensors& own, bool slots) {
  detail::RunState state;
  (slots ? state.slots : state.parameters) = own;
  NamedTensors all;
  for (const std::string& bytes : comm::share_texts(replica, detail::to_bytes(state), options)) {
    detail::RunState its = detail::run_state_from(bytes);
    for (auto& named : slots ? its.slots : its.parameters) all.push_back(std::move(named));
  }
  return all;
}

// Those of a net whose parameters have these names, in that order.
NamedTensors in_order_of(const std::vector<StepGraph::Parameter>& parameters, NamedTensors all) {
  NamedTensors sorted;
  for (const StepGraph::Parameter& parameter : parameters)
    for (auto& named : all)
      if (parameter.slice <= 0 && named.first == parameter.name) sorted.push_back(named);
  return sorted;
}

std::string residual_prefix(std::size_t rank) { return fmt::format("residual{}", rank); }

}  // namespace

void check_shares(std::int64_t shards, int threads, int workers) {
  if (shards < 1) throw InvalidArgument("train: at least 1 shard is needed, got {}", shards);
  if (threads < 1) throw InvalidArgument("train: at least 1 thread is needed, got {}", threads);
  if (workers > shards)
    throw InvalidArgument("train: {} workers cannot share {} shards: each needs one", workers,
                          shards);
}

struct StepEngine::Impl {
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

  Impl(const nn::BlockPtr& net, LossFunction loss, optim::OptimizerPtr rule,
       const std::vector<TensorInfo>& fields, const EngineOptions& given)
      : options(given),
        alone(given.mode == nullptr ? kvstore::local_mode() : nullptr),
        mode(alone ? alone.get() : given.mode),
        program(net, loss, fields, compile_options(given), given.fields, given.cuts,
                segments_of_stage(*mode, given),
                plan_slices(*net, loss, fields, given.fields, given.slices, given.splits),
                slices_of_worker(*mode, given)),
        state(program.make_layout(mode->keeps_residuals()), std::move(rule), mode->slot_place(),
              shares_weights(given) ? kvstore::WeightPlace::shared : kvstore::WeightPlace::here) {
    if (has_part() && !program.step().tables.empty())
      throw Unsupported("train: {} has sparse gradients, which workers of a {} do not train",
                        program.step().parameters[program.step().tables[0]].name,
                        kvstore::slice_links_of(*mode) ? "net in slices" : "pipeline");
    if (shares_weights(given) && !program.step().tables.empty())
      throw Unsupported(
          "train: {} has sparse gradients, which workers that share the weights do not train",
          program.step().parameters[program.step().tables[0]].name);
    if (given.slices > 1 && kvstore::stage_links_of(*mode) != nullptr)
      throw Unsupported("train: a net in slices is not trained by a pipeline");
    if (kvstore::slice_links_of(*mode) && program.step().shards_meet)
      throw Unsupported(
          "train: shards that meet (sync_batch_norm) are computed whole: no worker has some of "
          "their slices alone");
    if (given.slices > 1 &&
        (mode->keeps_residuals() || mode->slot_place() != kvstore::SlotPlace::here))
      throw Unsupported(
          "train: a net in slices is trained with local or allreduce sums, uncompressed, and all "
          "of the rule's state with every worker");
    state.shares_weights() ? void(units.emplace(program, state.layout()))
                           : program.use_weights(state);
    everybodys.emplace(program, kvstore::stage_links_of(*mode), units ? &*units : nullptr);
    make_plan();
    load(*net);
  }

  void load(const nn::Block& net) {
    units ? program.load(net, state) : program.load(net);
    if (synchronizer) synchronizer->weights_changed();
  }

  void make_plan() {
    plan.reset();
    synchronizer.reset();
    const ShardRange range = kvstore::range_of(*mode, options.shards);
    synchronizer = mode->synchronize(state, options.shards);
    plan = std::make_unique<detail::StepPlan>(
        program, *synchronizer,
        detail::PlanOptions{.shards = options.shards,
                            .range = range,
                            .threads = static_cast<int>(
                                std::min<std::int64_t>(options.threads, range.hi - range.lo)),
                            .seed = options.seed,
                            .bucket_bytes = options.bucket_bytes,
                            .group = &mode->group(),
                            .links = kvstore::stage_links_of(*mode),
                            .pipeline = {options.schedule, options.recompute},
                            .slice_links = kvstore::slice_links_of(*mode),
                            .units = units ? &*units : nullptr});
  }

  // Whether others of its replica have parts of the net that this worker has not.
  bool has_part() const {
    return kvstore::stage_links_of(*mode) != nullptr || kvstore::slice_links_of(*mode) != nullptr;
  }

  bool is_sliced() const { return program.step().slices > 1; }

  // Of a net in slices: all of its workers' tensors, whole.
  NamedTensors gather(const NamedTensors& own, bool are_slots) const {
    NamedTensors all = own;
    if (kvstore::SliceLinks* links = kvstore::slice_links_of(*mode))
      all = from_all_parts(links->tensor(), links->options(), own, are_slots);
    return detail::join_slices(program.step().parameters, all);
  }

  NamedTensors parameters() const {
    return in_order_of(program.step().parameters, gather(program.parameters(), false));
  }

  void check_plan() const {
    check(plan != nullptr, "an engine without a plan: the last replan failed");
  }

  // What this worker has not sent goes with it into the next membership.
  void keep_unsent() {
    const std::span<const float> own = synchronizer->residual();
    unsent.assign(own.begin(), own.end());
  }
  void send_what_was_kept() {
    const std::span<float> own = synchronizer->residual();
    if (own.size() == unsent.size()) std::copy(unsent.begin(), unsent.end(), own.begin());
    unsent = {};
  }

  const kvstore::FlatLayout& layout() const { return state.layout(); }
  std::size_t slots() const { return static_cast<std::size_t>(state.rule().slots()); }
  // Where a replan has failed, they are here or nowhere.
  std::span<const float> slot(std::size_t number) const {
    if (synchronizer) return synchronizer->slot(number);
    check_slots_are_here();
    return state.slot(number);
  }
  // Those that are here, slice by slice.
  NamedTensors own_slots() const {
    NamedTensors result;
    for (std::size_t k = 0; k < slots(); ++k)
      program.append_flat(layout(), detail::slot_prefix(k), slot(k), result);
    for (std::size_t k = 0; k < slots(); ++k)
      program.append_tables(
          layout(), detail::slot_prefix(k), [&](std::size_t table) { return table_slot(k, table); },
          result);
    return result;
  }
  void set_slot(std::size_t number, std::span<const float> values) {
    if (synchronizer) return synchronizer->set_slot(number, values);
    check_slots_are_here();
    std::copy(values.begin(), values.end(), state.slot(number).begin());
  }
  std::span<const float> table_slot(std::size_t number, std::size_t table) const {
    if (synchronizer) return synchronizer->table_slot(number, table);
    check_slots_are_here();
    return state.tables().slot(number, table);
  }
  void set_table_slot(std::size_t number, std::size_t table, std::span<const float> values) {
    if (synchronizer) return synchronizer->set_table_slot(number, table, values);
    check_slots_are_here();
    std::ranges::copy(values, state.tables().slot(number, table).begin());
  }
  void check_slots_are_here() const {
    check(state.slots() == slots(), "slots of an engine without a plan: the last replan failed");
  }

  // The step counts: its weights, statistics and what is made of them are the engine's from now on.
  void take_over(const std::vector<Tensor>& statistics) {
    if (!units) program.use_weights(state);
    program.set_statistics(statistics);
  }

  // All shards of a step have one shape, which may be another than that of the step before.
  void select_shape(std::span<const data::Fields> shards) {
    std::vector<TensorInfo> fields = data::infos_of(shards[0]);
    for (std::size_t s = 1; s < shards.size(); ++s)
      check_same_shape(fields, data::infos_of(shards[s]), plan->range().lo, s);
    program.select(on_device(std::move(fields)));
    program.refresh(plan->team());
  }

  std::vector<TensorInfo> on_device(std::vector<TensorInfo> fields) const {
    const Device& device = program.fields()[0].device;
    for (TensorInfo& info : fields) info.device = device;
    return fields;
  }

  // Of the step that has just been committed.
  std::optional<StepCost> cost(const detail::CostMeter& meter) const {
    const kvstore::Group& group = mode->group();
    if (group.workers() == 1 || has_part()) return {};
    return meter.finish(plan->computed_at(),
                        plan->seconds_of(group.membership().deal(options.shards)), group.rank());
  }

  // Whether the step got as far as to compute these: their shape is refused before.
  bool have_selected_shape(std::span<const data::Fields> shards) const {
    return std::all_of(shards.begin(), shards.end(), [&](const data::Fields& shard) {
      return on_device(data::infos_of(shard)) == program.fields();
    });
  }
};

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
  impl_->select_shape(shards);
  impl_->synchronizer->begin(step, learning_rate);
  plan.compute(step, shards);
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

std::vector<float> StepEngine::statistics() const {
  std::vector<float> values;
  for (const Tensor& one : impl_->program.statistics())
    values.insert(values.end(), one.data<float>(), one.data<float>() + one.numel());
  return values;
}

void StepEngine::set_statistics(std::span<const float> values) {
  std::vector<Tensor> all = impl_->program.statistics();
  std::size_t next = 0;
  for (Tensor& one : all) {
    const auto count = static_cast<std::size_t>(one.numel());
    check(next + count <= values.size(), "statistics of another net");
    one = one.copy();
    std::copy_n(values.data() + next, count, one.data<float>());
    next += count;
  }
  check(next == values.size(), "statistics of another net");
  impl_->program.set_statistics(all);
}

const FieldRoles& StepEngine::fields() const { return impl_->program.step().roles; }

bool StepEngine::shards_meet() const { return impl_->program.step().shards_meet; }

bool StepEngine::has_accuracy() const { return impl_->program.step().has_accuracy; }

const std::vector<BatchNormSize>& StepEngine::batch_norm_sizes() const {
  return impl_->program.batch_norm_sizes();
}

bool StepEngine::is_partial() const { return impl_->units.has_value() || impl_->has_part(); }

void StepEngine::store(nn::Block& net) const {
  if (!is_partial()) return impl_->program.store(net);
  if (impl_->is_sliced())
    return set_trained_parameters(net, impl_->program.loss(), impl_->parameters(), "the slices");
  const std::vector<nn::Parameter> places = impl_->program.parameters_of(net);
  for (std::size_t i = 0; i < places.size(); ++i)
    places[i].set_data(impl_->everybodys->get(i, impl_->synchronizer.get()));
}
void StepEngine::load(const nn::Block& net) { impl_->load(net); }

WaitedTime StepEngine::waited() const { return impl_->plan ? impl_->plan->waited() : WaitedTime{}; }

Tensor StepEngine::parameter(std::size_t number) const { return impl_->program.parameter(number); }

std::string StepEngine::params_sha256() const {
  if (impl_->is_sliced()) return io::tensors_sha256(impl_->parameters());
  return impl_->everybodys->sha256(impl_->synchronizer.get());
}

void StepEngine::collect_slots() {
  impl_->check_plan();
  impl_->synchronizer->collect_slots();
}

Snapshot StepEngine::snapshot(bool keep) const {
  Snapshot snapshot;
  if (!keep && !is_partial()) return snapshot;
  if (impl_->is_sliced()) {
    NamedTensors all = impl_->parameters(), slots = impl_->gather(impl_->own_slots(), true);
    if (!keep) return snapshot;
    snapshot.parameters = std::move(all);
    snapshot.slots = std::move(slots);
    return snapshot;
  }
  const std::vector<StepGraph::Parameter>& parameters = impl_->program.step().parameters;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Tensor own = impl_->everybodys->get(i, impl_->synchronizer.get());
    if (keep) snapshot.parameters.emplace_back(parameters[i].name, std::move(own));
  }
  // Of shared ones the first worker alone has collected them.
  if (!impl_->units || impl_->mode->group().is_first())
    snapshot.slots = impl_->everybodys->all_slots(slots(), impl_->slots(), keep);
  return snapshot;
}

Snapshot StepEngine::own_snapshot() const {
  if (impl_->mode->slot_place() == kvstore::SlotPlace::here) return snapshot();
  Snapshot snapshot;
  snapshot.parameters = impl_->parameters();
  return snapshot;
}

std::vector<std::pair<std::string, Tensor>> StepEngine::slots() const {
  return detail::join_slices(impl_->program.step().parameters, impl_->own_slots());
}

void StepEngine::set_slots(const std::vector<std::pair<std::string, Tensor>>& slots) {
  std::vector<float> values(impl_->layout().floats);
  for (std::size_t k = 0; k < impl_->slots(); ++k) {
    impl_->program.set_flat(impl_->layout(), detail::slot_prefix(k), slots, values);
    impl_->set_slot(k, values);
  }
  for (std::size_t k = 0; k < impl_->slots(); ++k)
    impl_->program.set_tables(impl_->layout(), detail::slot_prefix(k), slots,
                              [&](std::size_t table, std::span<const float> numbers) {
                                impl_->set_table_slot(k, table, numbers);
                              });
}

std::vector<std::pair<std::string, Tensor>> StepEngine::residuals() {
  impl_->check_plan();
  const std::span<const float> own = impl_->synchronizer->residual();
  NamedTensors result;
  if (own.empty()) return result;
  const std::vector<float> all = impl_->mode->group().collect(own);
  for (std::size_t rank = 0; rank < all.size() / own.size(); ++rank)
    impl_->program.append_flat(impl_->layout(), residual_prefix(rank),
                               std::span(all).subspan(rank * own.size(), own.size()), result);
  return result;
}

void StepEngine::set_residuals(const std::vector<std::pair<std::string, Tensor>>& residuals) {
  impl_->check_plan();
  const std::span<float> own = impl_->synchronizer->residual();
  if (residuals.empty() || own.empty()) return;
  std::fill(own.begin(), own.end(), 0.0F);
  const kvstore::Group& group = impl_->mode->group();
  const std::size_t ranks = residuals.size() / impl_->layout().parameters.size();
  std::vector<float> its(own.size());
  for (auto rank = static_cast<std::size_t>(group.rank()); rank < ranks;
       rank += static_cast<std::size_t>(group.workers())) {
    impl_->program.set_flat(impl_->layout(), residual_prefix(rank), residuals, its);
    for (std::size_t i = 0; i < own.size(); ++i) own[i] += its[i];
  }
}

std::string StepEngine::find_bad_op(std::int64_t step, std::span<const data::Fields> shards) {
  impl_->check_plan();
  if (is_partial()) return {};  // no stage can compute the shards by itself
  const FlushSubnormals flush;
  impl_->plan->set_keys(step);
  impl_->select_shape(shards);
  for (std::size_t s = 0; s < shards.size(); ++s) {
    const auto found = impl_->program.executable(0).find_non_finite(impl_->plan->inputs(s, shards));
    if (!found) continue;
    const StepGraph& graph = impl_->program.step();
    switch (found->kind) {
      case NonFinite::Kind::state:
        return "parameter " + graph.parameters[found->index - graph.parameter_input(0)].name;
      case NonFinite::Kind::input:
        return fmt::format("the data of shard {}", range().lo + static_cast<std::int64_t>(s));
      case NonFinite::Kind::step: return "op " + found->what;
    }
  }
  return {};
}

std::optional<BadSample> StepEngine::find_refused_sample(std::int64_t step,
                                                         std::span<const data::Fields> shards) {
  impl_->check_plan();
  if (is_partial() || !impl_->have_selected_shape(shards)) return {};
  const FlushSubnormals flush;
  impl_->plan->set_keys(step);
  std::vector<data::Fields> tried(shards.begin(), shards.end());
  std::vector<Tensor> outputs;
  for (const TensorInfo& info : impl_->program.first().output_infos())
    outputs.push_back(Tensor::zeros(info.shape, info.dtype, info.device));
  for (std::size_t s = 0; s < shards.size(); ++s) {
    const auto run = [&](const data::Fields& batch) {
      tried[s] = batch;
      impl_->program.executable(0).run_into(impl_->plan->inputs(s, tried), outputs,
                                            [](std::size_t, std::span<const std::byte>) {});
    };
    if (auto refused = detail::find_refused_row(shards[s], run)) {
      refused->shard = static_cast<std::int64_t>(s);
      return refused;
    }
  }
  return {};
}

std::string StepEngine::find_bad_sum() const {
  impl_->check_plan();
  const std::span<const float> sums = impl_->synchronizer->sums();
  for (const kvstore::FlatParameter& parameter : impl_->layout().parameters) {
    if (sums.empty() || kvstore::all_finite(sums.subspan(parameter.offset, parameter.count)))
      continue;
    return impl_->plan->is_finite_here(parameter) ? impl_->program.name_of(parameter) : "";
  }
  const kvstore::RowTables& tables = impl_->state.tables();
  for (std::size_t t = 0; t < tables.size(); ++t) {
    if (kvstore::all_finite(tables.gradient(t).rows)) continue;
    return impl_->plan->is_finite_here(t) ? impl_->program.name_of(tables.layout(t)) : "";
  }
  return {};
}

Probe StepEngine::probe() {
  impl_->check_plan();
  if (is_partial()) return {params_sha256(), {}, {}};
  const FlushSubnormals flush;
  Sha256 sum;
  std::vector<Tensor> inputs = fixed_fields(impl_->program.fields(), impl_->program.step().roles);
  inputs.push_back(random_key(0, 0, 0).to(inputs[0].device()));
  std::vector<Tensor>& outputs = impl_->plan->outputs(0);
  impl_->program.executable(0).run_into(
      inputs, outputs,
      [&](std::size_t, std::span<const std::byte> gradient) { sum.update(gradient); });
  for (const Tensor& output : outputs) {
    const Tensor host = output.to(cpu());
    sum.update({host.raw(), host.info().bytes()});
  }
  return {params_sha256(), impl_->program.layouts_sha256(impl_->layout()), sum.hex()};
}

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
