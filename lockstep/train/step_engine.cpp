// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/step_engine.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <optional>

#include "lockstep/base/float_mode.h"
#include "lockstep/base/sha256.h"
#include "lockstep/base/thread_team.h"
#include "lockstep/graph/flops.h"
#include "lockstep/io/archive.h"
#include "lockstep/ops/random_ops.h"
#include "lockstep/train/detail/buckets.h"
#include "lockstep/train/detail/element_numbers.h"
#include "lockstep/train/detail/gradient_sums.h"
#include "lockstep/train/detail/update.h"
#include "lockstep/train/tree_sum.h"

namespace lockstep::train {
namespace {

double tree_sum(std::span<const double> values) {
  if (values.size() == 1) return values[0];
  const auto middle =
      static_cast<std::size_t>(tree_middle(0, static_cast<std::int64_t>(values.size())));
  return tree_sum(values.first(middle)) + tree_sum(values.subspan(middle));
}

ShardRange own_range(const EngineOptions& options) {
  return options.exchange ? kvstore::range_of(*options.exchange, options.shards)
                          : ShardRange{0, options.shards};
}

EngineOptions checked(EngineOptions options) {
  if (options.shards < 1)
    throw InvalidArgument("train: at least 1 shard is needed, got {}", options.shards);
  if (options.threads < 1)
    throw InvalidArgument("train: at least 1 thread is needed, got {}", options.threads);
  if (options.exchange && options.exchange->workers() > options.shards)
    throw InvalidArgument("train: {} workers cannot share {} shards: each needs one",
                          options.exchange->workers(), options.shards);
  const ShardRange range = own_range(options);
  options.threads = static_cast<int>(std::min<std::int64_t>(options.threads, range.hi - range.lo));
  return options;
}

// Draws where a field has floats; the first class or word where it has indices.
data::Fields fixed_fields(const std::vector<TensorInfo>& infos) {
  const RandomScope draws(random_key(0, 0, 0));
  data::Fields fields;
  for (const TensorInfo& info : infos)
    fields.push_back(info.dtype == DType::float32 ? normal(info.shape)
                                                  : Tensor::zeros(info.shape, info.dtype));
  return fields;
}

}  // namespace

struct StepEngine::Impl {
  EngineOptions options;
  std::vector<TensorInfo> fields;
  ShardRange range;
  StepGraph step;
  double flops_per_sample = 0;
  std::vector<Executable> executables;             // one a thread, over the same parameters
  std::vector<std::optional<Executable>> seconds;  // one more a thread whose shards take turns
  std::vector<std::size_t> slice_of;               // by delivery
  detail::FlatLayout layout;
  detail::Update update;
  std::span<float> shared;  // memory of the exchange, in which sums are made in place
  detail::GradientSums sums;
  std::unique_ptr<detail::Buckets> buckets;  // of several workers
  ThreadTeam team;                           // the computing threads
  std::unique_ptr<ThreadTeam> beside;        // the caller's, and one that exchanges buckets

  std::vector<std::vector<Tensor>> outputs;  // by shard of our own: loss, accuracy, updates
  std::vector<Tensor> keys;                  // by shard of our own
  std::size_t row_size = 0;
  std::vector<float> rows;  // of all shards: the outputs one after the other
  std::vector<Tensor> update_sums;
  std::vector<double> by_shard;

  Impl(nn::Block& net, const LossFunction& loss, optim::OptimizerPtr rule,
       const std::vector<TensorInfo>& shard_fields, const EngineOptions& given)
      : options(given),
        fields(shard_fields),
        range(own_range(given)),
        step(trace_step(net, loss, fields)),
        executables(compile()),
        layout(make_layout()),
        update(layout, std::move(rule)),
        shared(exchange_memory()),
        sums(layout, options.shards, range, options.threads, !updates_at_once(), shared),
        buckets(make_buckets()),
        team(options.threads, "compute") {
    if (buckets && buckets->goes_beside())
      beside = std::make_unique<ThreadTeam>(2, "exchange", ThreadTeam::Waiting::sleeps);
    seconds.resize(executables.size());
    for (int t = 0; t < options.threads; ++t)
      if (takes_turns(t)) seconds[static_cast<std::size_t>(t)] = executables[0].clone();
    make_outputs();
  }

  bool takes_turns(int thread) const {
    const ShardRange own = sums.range_of(thread);
    return beside && options.exchange->waits_for_links() && own.hi - own.lo >= 2;
  }

  // With one thread and no other worker, the last leaf's gradient makes the whole sum: the update
  // follows at once, and that sum is never kept.
  bool updates_at_once() const {
    return options.threads == 1 && options.exchange == nullptr && update.is_local();
  }

  std::vector<Executable> compile() {
    flops_per_sample = count_flops(step.graph) /
                       static_cast<double>(std::max<std::int64_t>(1, fields[0].shape[0]));
    CompileOptions compile = options.compile;
    compile.prologue = range.hi - range.lo > 1;
    for (std::size_t i = 0; i < step.parameters.size(); ++i)
      compile.states.push_back(step.parameter_input(i));
    for (std::size_t i = 0; i < step.trainable.size(); ++i)
      compile.deliveries.push_back(
          {step.gradient_output(i), step.parameter_input(step.trainable[i])});
    std::vector<Executable> result;
    result.push_back(Executable::compile(step.graph, compile));
    for (int t = 1; t < options.threads; ++t) result.push_back(result[0].clone());
    return result;
  }

  detail::FlatLayout make_layout() {
    detail::FlatLayout result;
    slice_of.resize(step.trainable.size());
    for (std::size_t delivery : executables[0].delivery_order()) {
      const std::size_t place = step.trainable[delivery];
      const auto memory = executables[0].state_memory(step.parameter_input(place));
      const nn::ParameterOptions& parameter = step.parameters[place].options;
      slice_of[delivery] = result.slices.size();
      result.add({place, reinterpret_cast<float*>(memory.data()), 0, memory.size() / sizeof(float),
                  parameter.rate_multiplier, parameter.decay_multiplier});
    }
    return result;
  }

  std::span<float> exchange_memory() const {
    return every_worker_has_one_node() ? options.exchange->memory(layout.floats)
                                       : std::span<float>();
  }

  bool every_worker_has_one_node() const {
    if (options.exchange == nullptr) return false;
    const auto ranges = deal_shards(options.shards, options.exchange->workers());
    return std::all_of(ranges.begin(), ranges.end(), [&](const ShardRange& of_worker) {
      return subtrees_in(options.shards, of_worker).size() == 1;
    });
  }

  std::unique_ptr<detail::Buckets> make_buckets() {
    if (options.exchange == nullptr) return nullptr;
    auto made =
        std::make_unique<detail::Buckets>(layout, sums, *options.exchange, options.shards,
                                          options.threads, options.bucket_bytes, !shared.empty());
    const std::span<float> residual = options.exchange->residual(layout.floats);
    std::fill(residual.begin(), residual.end(), 0.0F);  // of a run before this one
    if (!residual.empty()) made->set_unused(unused());
    return made;
  }

  // The gaps between parameters, and the padding inside them: what packing ones leaves zero.
  std::vector<std::size_t> unused() const {
    std::vector<float> used(layout.floats);
    for (const detail::Slice& slice : layout.slices)
      pack(slice, Tensor::full(step.parameters[slice.place].shape, 1.0),
           used.data() + slice.offset);
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < used.size(); ++i)
      if (used[i] == 0.0F) places.push_back(i);
    return places;
  }

  // A slice of a flat buffer from and to a tensor of plain layout.
  void pack(const detail::Slice& slice, const Tensor& tensor, float* data) const {
    executables[0].pack(step.parameter_input(slice.place), tensor,
                        std::as_writable_bytes(std::span(data, slice.count)));
  }
  Tensor unpack(const detail::Slice& slice, const float* data) const {
    return executables[0].unpack(step.parameter_input(slice.place),
                                 std::as_bytes(std::span(data, slice.count)));
  }
  // The tensor of that name, when it fits the slice.
  const Tensor& find(const std::vector<std::pair<std::string, Tensor>>& tensors,
                     const std::string& name, const detail::Slice& slice) const {
    const auto found = std::find_if(tensors.begin(), tensors.end(),
                                    [&](const auto& tensor) { return tensor.first == name; });
    if (found == tensors.end()) throw Corrupt("train: the checkpoint has no {}", name);
    const Shape& shape = step.parameters[slice.place].shape;
    if (!(found->second.shape() == shape) || found->second.dtype() != DType::float32)
      throw Corrupt("train: {} is {}, the parameter is {}", name, found->second.info().str(),
                    shape.str());
    return found->second;
  }

  void make_outputs() {
    for (std::int64_t shard = range.lo; shard < range.hi; ++shard) {
      std::vector<Tensor> room;
      for (const TensorInfo& info : executables[0].output_infos())
        room.push_back(Tensor::zeros(info.shape, info.dtype));
      outputs.push_back(std::move(room));
      keys.push_back(random_key(options.seed, 0, static_cast<std::uint32_t>(shard)));
    }
    for (const Tensor& output : outputs[0]) row_size += static_cast<std::size_t>(output.numel());
    ++row_size;  // the wish to stop
    rows.resize(row_size * static_cast<std::size_t>(options.shards));
    for (std::size_t place : step.updated)
      update_sums.push_back(Tensor::zeros(step.parameters[place].shape));
    by_shard.resize(static_cast<std::size_t>(options.shards));
  }

  // All of this worker's shards, and the exchange with the others.
  void compute(std::span<const data::Fields> shards, const optim::UpdateContext& context) {
    if (buckets) buckets->begin();
    const auto own = [&] { team.run([&](int t) { run_thread(t, shards, context); }); };
    if (beside)
      return beside->run([&](int t) { t == 0 ? own() : buckets->exchange(update, context); });
    own();
    if (buckets) buckets->exchange(update, context);
  }

  void run_thread(int thread, std::span<const data::Fields> shards,
                  const optim::UpdateContext& context) {
    try {
      run_shards(thread, shards, context);
    } catch (...) {
      if (buckets) buckets->give_up();
      throw;
    }
  }

  void run_shards(int thread, std::span<const data::Fields> shards,
                  const optim::UpdateContext& context) {
    const ShardRange own = sums.range_of(thread);
    sums.begin(thread);
    Executable& first = executables[static_cast<std::size_t>(thread)];
    std::optional<Executable>& second = seconds[static_cast<std::size_t>(thread)];
    const std::int64_t pair = second ? own.hi - 2 : own.hi;
    for (std::int64_t shard = own.lo; shard < pair; ++shard) {
      const Executable::Receiver take = receiver(thread, shard, context);
      begin_shard(first, shard, shards);
      while (first.go_on(take)) continue;
    }
    if (!second) return;
    begin_shard(first, pair, shards);
    begin_shard(*second, pair + 1, shards);
    run_in_turns(first, receiver(thread, pair, context), *second,
                 receiver(thread, pair + 1, context));
  }

  // Forward and backward of one shard.
  void begin_shard(Executable& executable, std::int64_t shard,
                   std::span<const data::Fields> shards) {
    const auto own = static_cast<std::size_t>(shard - range.lo);
    std::vector<Tensor> inputs(shards[own].begin(), shards[own].end());
    inputs.push_back(keys[own]);
    executable.begin(inputs, outputs[own]);
  }

  // A gradient can leave when the last shard has made it. The last two take turns, so that the
  // first gradients leave two backward passes before the end, not one.
  static void run_in_turns(Executable& first, const Executable::Receiver& of_first,
                           Executable& second, const Executable::Receiver& of_second) {
    while (first.go_on(of_first) && second.go_on(of_second)) continue;
    second.go_on(of_second);
  }

  // Takes the gradients of a shard.
  Executable::Receiver receiver(int thread, std::int64_t shard,
                                const optim::UpdateContext& context) {
    const bool last = shard + 1 == sums.range_of(thread).hi;
    return [this, thread, shard, last, &context](std::size_t delivery,
                                                 std::span<const std::byte> bytes) {
      const auto* values = reinterpret_cast<const float*>(bytes.data());
      const std::size_t slice = slice_of[delivery];
      if (last && updates_at_once()) {
        if (!losses_are_finite()) sums.spoil(thread);
        sums.add_last(
            thread, shard, slice, values,
            [&](const detail::Piece& piece, const float* sum) { update.run(piece, sum, context); });
        return;
      }
      sums.add(thread, shard, slice, values);
      if (last && buckets) buckets->slice_is_ready(slice);
    };
  }

  bool losses_are_finite() const {
    return std::all_of(outputs.begin(), outputs.end(), [](const std::vector<Tensor>& of_shard) {
      return std::isfinite(*of_shard[StepGraph::kLoss].data<float>());
    });
  }

  // The outputs of all shards, whoever computed them.
  void collect_rows(bool stop) {
    float* row = rows.data() + static_cast<std::size_t>(range.lo) * row_size;
    std::span<float> own(row, outputs.size() * row_size);
    for (const std::vector<Tensor>& of_shard : outputs) {
      for (const Tensor& output : of_shard)
        row = std::copy_n(output.data<float>(), output.numel(), row);
      *row++ = stop ? 1.0F : 0.0F;
    }
    if (options.exchange == nullptr) return;
    const std::vector<float> sent(own.begin(), own.end());
    options.exchange->gather(sent, options.shards, rows);
  }

  // By the canonical tree over all shards.
  double mean_of(std::size_t column) {
    for (std::size_t s = 0; s < by_shard.size(); ++s)
      by_shard[s] = static_cast<double>(rows[s * row_size + column]);
    return tree_sum(by_shard) / static_cast<double>(by_shard.size());
  }

  bool somebody_stops() const {
    for (std::size_t s = 0; s < by_shard.size(); ++s)
      if (rows[(s + 1) * row_size - 1] != 0.0F) return true;
    return false;
  }

  bool all_losses_are_finite() const {
    for (std::size_t s = 0; s < by_shard.size(); ++s)
      if (!std::isfinite(rows[s * row_size + StepGraph::kLoss])) return false;
    return true;
  }

  // Those that could not be updated as their sums came.
  void update_the_rest(const optim::UpdateContext& context) {
    if (updates_at_once() || (buckets && update.is_local())) return;
    update.run_all(
        team,
        [&](int thread, const detail::Piece& piece) {
          const std::size_t offset = layout.offset(piece);
          return buckets ? buckets->total() + offset : sums.whole(thread, offset, piece.size());
        },
        context);
  }

  // Running statistics: the mean of the shards' new values.
  void update_statistics() {
    std::size_t column = StepGraph::kFirstUpdate;
    for (std::size_t u = 0; u < step.updated.size(); ++u) {
      const Tensor& mean = update_sums[u];
      for (std::int64_t k = 0; k < mean.numel(); ++k)
        mean.data<float>()[k] = static_cast<float>(mean_of(column++));
      const std::size_t input = step.parameter_input(step.updated[u]);
      executables[0].pack(input, mean, executables[0].state_memory(input));
    }
  }

  void refresh() {
    std::atomic<std::size_t> next = 0;
    const std::size_t parts = executables[0].refresh_parts();
    if (parts == 0) return;
    team.run([&](int thread) {
      for (std::size_t i = next++; i < parts; i = next++)
        executables[static_cast<std::size_t>(thread)].refresh(i);
    });
  }

  // Slices in the order of the net's parameters.
  std::vector<detail::Slice> named_slices() const {
    std::vector<detail::Slice> result = layout.slices;
    std::sort(result.begin(), result.end(),
              [](const auto& a, const auto& b) { return a.place < b.place; });
    return result;
  }

  // Of each parameter in turn its place, and each element's number where the element lies.
  std::string layouts_sha256() {
    Sha256 sum;
    for (const detail::Slice& slice : layout.slices) {
      const std::uint64_t place = slice.place;
      sum.update(std::as_bytes(std::span(&place, 1)));
      const Shape& shape = step.parameters[slice.place].shape;
      for (int part = 0; part < detail::number_parts(shape.numel()); ++part) {
        std::vector<float> placed(slice.count);
        pack(slice, detail::element_numbers(shape, part), placed.data());
        sum.update(std::as_bytes(std::span(placed)));
      }
    }
    return sum.hex();
  }

  void set_keys(std::int64_t number) {
    for (const Tensor& key : keys) key.data<std::int64_t>()[1] = number;
  }
};

StepEngine::StepEngine(nn::BlockPtr net, LossFunction loss, optim::OptimizerPtr optimizer,
                       const std::vector<TensorInfo>& fields, const EngineOptions& options)
    : impl_(std::make_unique<Impl>(*net, loss, std::move(optimizer), fields, checked(options))) {
  load(*net);
}

StepEngine::~StepEngine() = default;

StepResult StepEngine::run(std::int64_t step, double learning_rate,
                           std::span<const data::Fields> shards, bool stop) {
  Impl& impl = *impl_;
  if (shards.size() != impl.outputs.size())
    throw InvalidArgument("train: a step needs the batches of {} shards, got {}",
                          impl.outputs.size(), shards.size());
  const FlushSubnormals flush;
  const optim::UpdateContext context =
      impl.update.context(step, learning_rate, impl.options.shards);
  impl.set_keys(step);
  impl.compute(shards, context);
  impl.collect_rows(stop);
  StepResult result{impl.mean_of(StepGraph::kLoss), impl.mean_of(StepGraph::kAccuracy)};
  result.finite = impl.all_losses_are_finite() &&
                  (impl.buckets ? impl.buckets->is_finite() : impl.sums.is_finite());
  result.stop = impl.somebody_stops();
  if (!result.finite) return result;
  impl.update_the_rest(context);
  impl.update_statistics();
  impl.refresh();
  return result;
}

void StepEngine::store(nn::Block& net) const {
  for (std::size_t i = 0; i < impl_->step.parameters.size(); ++i)
    net.parameter(impl_->step.parameters[i].name)
        .set_data(impl_->executables[0].state(impl_->step.parameter_input(i)));
}

void StepEngine::load(const nn::Block& net) {
  for (std::size_t i = 0; i < impl_->step.parameters.size(); ++i)
    impl_->executables[0].set_state(impl_->step.parameter_input(i),
                                    net.parameter(impl_->step.parameters[i].name).data());
}

std::vector<std::pair<std::string, Tensor>> StepEngine::slots() const {
  std::vector<std::pair<std::string, Tensor>> result;
  for (std::size_t k = 0; k < impl_->update.slots().size(); ++k)
    for (const detail::Slice& slice : impl_->named_slices())
      result.emplace_back(fmt::format("slot{}/{}", k, impl_->step.parameters[slice.place].name),
                          impl_->unpack(slice, impl_->update.slots()[k].data() + slice.offset));
  return result;
}

void StepEngine::set_slots(const std::vector<std::pair<std::string, Tensor>>& slots) {
  for (std::size_t k = 0; k < impl_->update.slots().size(); ++k)
    for (const detail::Slice& slice : impl_->named_slices()) {
      const std::string name =
          fmt::format("slot{}/{}", k, impl_->step.parameters[slice.place].name);
      impl_->pack(slice, impl_->find(slots, name, slice),
                  impl_->update.slots()[k].data() + slice.offset);
    }
}

std::vector<std::pair<std::string, Tensor>> StepEngine::residuals() {
  const std::size_t floats = impl_->layout.floats;
  if (impl_->options.exchange == nullptr) return {};
  const std::span<const float> own = impl_->options.exchange->residual(floats);
  if (own.empty()) return {};
  const std::vector<float> all = impl_->options.exchange->collect(own);
  std::vector<std::pair<std::string, Tensor>> result;
  for (std::size_t rank = 0; rank < all.size() / floats; ++rank)
    for (const detail::Slice& slice : impl_->named_slices())
      result.emplace_back(
          fmt::format("residual{}/{}", rank, impl_->step.parameters[slice.place].name),
          impl_->unpack(slice, all.data() + rank * floats + slice.offset));
  return result;
}

void StepEngine::set_residuals(const std::vector<std::pair<std::string, Tensor>>& residuals) {
  if (impl_->options.exchange == nullptr || residuals.empty()) return;
  const std::span<float> own = impl_->options.exchange->residual(impl_->layout.floats);
  if (own.empty()) return;
  std::fill(own.begin(), own.end(), 0.0F);
  const std::size_t ranks = residuals.size() / impl_->layout.slices.size();
  std::vector<float> room;
  for (auto rank = static_cast<std::size_t>(impl_->options.exchange->rank()); rank < ranks;
       rank += static_cast<std::size_t>(impl_->options.exchange->workers()))
    for (const detail::Slice& slice : impl_->named_slices()) {
      const std::string name =
          fmt::format("residual{}/{}", rank, impl_->step.parameters[slice.place].name);
      room.assign(slice.count, 0.0F);
      impl_->pack(slice, impl_->find(residuals, name, slice), room.data());
      for (std::size_t i = 0; i < slice.count; ++i) own[slice.offset + i] += room[i];
    }
}

std::string StepEngine::params_sha256() const {
  std::vector<io::NamedTensor> tensors;
  for (std::size_t i = 0; i < impl_->step.parameters.size(); ++i)
    tensors.emplace_back(impl_->step.parameters[i].name,
                         impl_->executables[0].state(impl_->step.parameter_input(i)));
  return io::tensors_sha256(std::move(tensors));
}

std::string StepEngine::find_bad_op(std::int64_t step, std::span<const data::Fields> shards) {
  const FlushSubnormals flush;
  impl_->set_keys(step);
  for (std::size_t s = 0; s < shards.size(); ++s) {
    std::vector<Tensor> inputs(shards[s].begin(), shards[s].end());
    inputs.push_back(impl_->keys[s]);
    const std::string found = impl_->executables[0].find_non_finite(inputs);
    if (found.empty()) continue;
    if (found.starts_with("state ")) {
      const std::size_t input = std::stoul(found.substr(6));
      return "parameter " + impl_->step.parameters[input - impl_->step.fields - 1].name;
    }
    if (found.starts_with("input "))
      return fmt::format("the data of shard {}", impl_->range.lo + static_cast<std::int64_t>(s));
    return "op " + found.substr(0, found.find(" by "));
  }
  return {};
}

std::string StepEngine::find_bad_sum() const {
  if (impl_->buckets == nullptr) return {};
  for (const detail::Slice& slice : impl_->layout.slices) {
    if (all_finite({impl_->buckets->total() + slice.offset, slice.count})) continue;
    for (std::size_t n = 0; n < impl_->sums.nodes().size(); ++n)
      if (!all_finite({impl_->sums.node(n, slice.offset, slice.count), slice.count})) return {};
    return impl_->step.parameters[slice.place].name;
  }
  return {};
}

Probe StepEngine::probe() {
  const FlushSubnormals flush;
  Sha256 sum;
  std::vector<Tensor> inputs = fixed_fields(impl_->fields);
  inputs.push_back(random_key(0, 0, 0));
  impl_->executables[0].run_into(
      inputs, impl_->outputs[0],
      [&](std::size_t, std::span<const std::byte> gradient) { sum.update(gradient); });
  for (const Tensor& output : impl_->outputs[0])
    sum.update(
        std::as_bytes(std::span(output.data<float>(), static_cast<std::size_t>(output.numel()))));
  return {params_sha256(), impl_->layouts_sha256(), sum.hex()};
}

std::int64_t StepEngine::shards() const { return impl_->options.shards; }
ShardRange StepEngine::range() const { return impl_->range; }
int StepEngine::threads() const { return impl_->options.threads; }
double StepEngine::flops_per_sample() const { return impl_->flops_per_sample; }
const Executable& StepEngine::executable() const { return impl_->executables[0]; }

std::size_t StepEngine::step_bytes() const {
  std::size_t bytes = impl_->executables[0].state_bytes();
  for (const Executable& executable : impl_->executables) bytes += executable.arena_bytes();
  for (const auto& second : impl_->seconds) bytes += second ? second->arena_bytes() : 0;
  const std::size_t buffers = impl_->update.slots().size() + impl_->sums.buffers() +
                              (impl_->buckets ? impl_->buckets->buffers() : 0);
  return bytes + buffers * impl_->layout.floats * sizeof(float);
}

}  // namespace lockstep::train
