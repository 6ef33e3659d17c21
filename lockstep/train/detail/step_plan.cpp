// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/detail/step_plan.h"

#include <atomic>
#include <cmath>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/kvstore/tree_sum.h"
#include "lockstep/ops/random_ops.h"

namespace lockstep::train::detail {
namespace {

// Of one column of a table of rows.
double tree_sum(const float* first, std::size_t row, std::int64_t lo, std::int64_t hi) {
  if (hi - lo == 1) return static_cast<double>(first[static_cast<std::size_t>(lo) * row]);
  const std::int64_t middle = tree_middle(lo, hi);
  return tree_sum(first, row, lo, middle) + tree_sum(first, row, middle, hi);
}

// A gradient can leave when the last shard has made it. The last two take turns, so that the first
// gradients leave two backward passes before the end, not one.
void run_in_turns(StepExecutable& first, const Executable::Receiver& of_first,
                  StepExecutable& second, const Executable::Receiver& of_second) {
  while (first.go_on(of_first) && second.go_on(of_second)) continue;
  second.go_on(of_second);
}

}  // namespace

StepPlan::StepPlan(StepProgram& program, kvstore::Synchronizer& synchronizer,
                   const PlanOptions& options)
    : program_(program),
      synchronizer_(synchronizer),
      options_(with_shard_threads(options, program)),
      sums_(synchronizer.state().layout(), options.shards, options.range, options_.threads,
            {.keep = !streams(),
             .first = synchronizer.memory(),
             .window = options.units ? std::max<std::size_t>(1, options.units->largest()) : 0}),
      row_gradients_(synchronizer.state().layout(), options.shards, options.range),
      team_(options_.threads, "compute",
            options_.threads > options.threads ? ThreadTeam::Waiting::sleeps
                                               : ThreadTeam::Waiting::spins) {
  if (program.step().shards_meet && options.links != nullptr && options.links->has_stages())
    throw Unsupported(
        "train: the stages of a pipeline compute one shard after the other, and shards of this net "
        "wait for each other (sync_batch_norm)");
  if (program.step().shards_meet && options.units != nullptr)
    throw Unsupported(
        "train: with shard-state 3 a worker computes segment after segment, each for one shard "
        "after the other, and shards of this net wait for each other (sync_batch_norm)");
  if (program.step().shards_meet)
    meeting_ = std::make_unique<StepMeeting>(*options.group, options.shards, options.range,
                                             options.threads);
  if (!synchronizer.takes_pieces() && options.units == nullptr)
    buckets_ = std::make_unique<Buckets>(synchronizer.state().layout(), sums_, options_.threads,
                                         options.bucket_bytes);
  // Giving in memory takes the computing thread's own core, whoever does it: a thread of its own is
  // for what waits for a link, or for other threads of this worker.
  // Shards that meet have the links to themselves while they compute.
  if (buckets_ && buckets_->size() > 1 && !meeting_ &&
      (options.threads > 1 || synchronizer.waits_for_links()))
    beside_ = std::make_unique<ThreadTeam>(2, "exchange", ThreadTeam::Waiting::sleeps);
  if (options.links != nullptr && options.links->has_stages()) make_pipelines();
  if (options.links != nullptr && options.links->has_slices())
    for (int thread = 0; thread < options_.threads; ++thread)
      slices_.push_back(
          std::make_unique<LinkedSlices>(options.links->slices(static_cast<std::size_t>(thread)),
                                         program.step().slices, options.links->options()));
  if (options.units != nullptr)
    units_ = std::make_unique<UnitRun>(program, *options.units, synchronizer, sums_,
                                       UnitOptions{.range = options.range,
                                                   .threads = options_.threads,
                                                   .bucket_bytes = options.bucket_bytes,
                                                   .recompute = options.pipeline.recompute});
  int uses = options_.threads;
  for (int thread = 0; thread < options_.threads; ++thread)
    if (takes_turns(thread)) uses = options_.threads + thread + 1;
  program.make_executables(static_cast<std::size_t>(uses));
  make_outputs();
}

void StepPlan::make_pipelines() {
  const auto threads = static_cast<std::size_t>(options_.threads);
  for (std::size_t thread = 0; thread < threads; ++thread) {
    const ShardRange own = sums_.range_of(static_cast<int>(thread));
    pipelines_.push_back(
        std::make_unique<PipelineRun>(program_, *options_.links, options_.pipeline,
                                      PipelineThread{thread, threads, own.hi - own.lo}));
  }
}

WaitedTime StepPlan::waited() const {
  WaitedTime all;
  for (const auto& pipeline : pipelines_) {
    all.seconds += pipeline->waited().seconds;
    all.of_seconds += pipeline->waited().of_seconds;
  }
  return all;
}

// Shards that meet are all under way at once, each in a thread and an arena of its own.
PlanOptions StepPlan::with_shard_threads(PlanOptions options, const StepProgram& program) {
  if (program.step().shards_meet)
    options.threads = static_cast<int>(options.range.hi - options.range.lo);
  return options;
}

void StepPlan::make_outputs() {
  for (std::int64_t shard = range().lo; shard < range().hi; ++shard) {
    std::vector<Tensor> room;
    for (const TensorInfo& info : program_.first().output_infos())
      room.push_back(Tensor::zeros(info.shape, info.dtype, info.device));
    outputs_.push_back(std::move(room));
    keys_.push_back(random_key(options_.seed, 0, static_cast<std::uint32_t>(shard)));
  }
  for (std::size_t i = 0; i < first_ids(); ++i)
    row_size_ += static_cast<std::size_t>(outputs_[0][i].numel());
  ++row_size_;
  rows_.resize(row_size_ * static_cast<std::size_t>(options_.shards));
  for (const std::size_t place : program_.step().updated)
    statistics_.push_back(Tensor::zeros(program_.step().parameters[place].shape));
}

// Lookups are as large as the shard's batch, which may have another shape than the one before.
void StepPlan::fit_outputs() {
  const Infos& infos = program_.first().output_infos();
  for (std::vector<Tensor>& of_shard : outputs_) {
    of_shard.resize(infos.size());
    for (std::size_t i = first_ids(); i < infos.size(); ++i)
      if (!of_shard[i].defined() || !(of_shard[i].info() == infos[i]))
        of_shard[i] = Tensor::zeros(infos[i].shape, infos[i].dtype, infos[i].device);
  }
}

// One thread has all shards, and what it gives is taken at once: the last leaf's gradient makes the
// whole sum, which is never kept.
bool StepPlan::streams() const {
  return options_.threads == 1 && synchronizer_.takes_pieces() && synchronizer_.state().is_local();
}

bool StepPlan::takes_turns(int thread) const {
  const ShardRange own = sums_.range_of(thread);
  return pipelines_.empty() && slices_.empty() && beside_ && synchronizer_.waits_for_links() &&
         own.hi - own.lo >= 2;
}

StepExecutable& StepPlan::second(int thread) {
  return program_.executable(static_cast<std::size_t>(options_.threads + thread));
}

void StepPlan::compute(std::int64_t step, std::span<const data::Fields> shards) {
  set_keys(step);
  fit_outputs();
  row_gradients_.begin();
  if (meeting_) meeting_->begin();
  compute_dense(shards);
  if (synchronizer_.state().tables().size() > 0)
    synchronizer_.give_rows(row_gradients_.nodes(team_));
}

void StepPlan::compute_dense(std::span<const data::Fields> shards) {
  const auto own = [&] {
    const auto begin = std::chrono::steady_clock::now();
    units_ ? run_units(shards) : team_.run([&](int thread) { run_thread(thread, shards); });
    computed_at_ = std::chrono::steady_clock::now();
    compute_seconds_ = std::chrono::duration<float>(computed_at_ - begin).count();
  };
  if (!buckets_) {
    own();
    if (!streams() && !units_) give_pieces();
    return;
  }
  buckets_->begin();
  if (beside_)
    return beside_->run([&](int thread) { thread == 0 ? own() : buckets_->give(synchronizer_); });
  own();
  buckets_->give(synchronizer_);
}

void StepPlan::run_units(std::span<const data::Fields> shards) {
  for (int thread = 0; thread < options_.threads; ++thread) sums_.begin(thread);
  units_->run(
      team_,
      [&](StepExecutable& executable, std::int64_t shard) {
        begin_shard(executable, shard, shards);
      },
      [&](int thread, std::int64_t shard) { return receiver(thread, shard); });
  for (int thread = 0; thread < options_.threads; ++thread) take_lookups(thread);
}

void StepPlan::run_thread(int thread, std::span<const data::Fields> shards) {
  try {
    std::optional<StepMeeting::Place> place;
    if (meeting_) place.emplace(*meeting_, sums_.range_of(thread).lo);
    std::optional<SliceMeetingScope> slices;
    if (!slices_.empty()) slices.emplace(*slices_[static_cast<std::size_t>(thread)]);
    run_shards(thread, shards);
    take_lookups(thread);
  } catch (...) {
    if (meeting_) meeting_->fail(std::current_exception());
    if (buckets_) buckets_->give_up();
    throw;
  }
}

void StepPlan::run_shards(int thread, std::span<const data::Fields> shards) {
  const ShardRange own = sums_.range_of(thread);
  sums_.begin(thread);
  if (!pipelines_.empty())
    return pipelines_[static_cast<std::size_t>(thread)]->run(
        [&](StepExecutable& executable, std::int64_t shard) {
          begin_shard(executable, own.lo + shard, shards);
        },
        [&](std::int64_t shard) { return receiver(thread, own.lo + shard); });
  StepExecutable& first = program_.executable(static_cast<std::size_t>(thread));
  const std::int64_t pair = takes_turns(thread) ? own.hi - 2 : own.hi;
  for (std::int64_t shard = own.lo; shard < pair; ++shard) {
    const Executable::Receiver take = receiver(thread, shard);
    begin_shard(first, shard, shards);
    while (first.go_on(take)) continue;
  }
  if (pair == own.hi) return;
  begin_shard(first, pair, shards);
  begin_shard(second(thread), pair + 1, shards);
  run_in_turns(first, receiver(thread, pair), second(thread), receiver(thread, pair + 1));
}

void StepPlan::take_lookups(int thread) {
  const ShardRange own = sums_.range_of(thread);
  for (std::int64_t shard = own.lo; shard < own.hi; ++shard)
    row_gradients_.take(
        shard, program_.lookups(),
        std::span(outputs_[static_cast<std::size_t>(shard - range().lo)]).subspan(first_ids()));
}

std::vector<Tensor> StepPlan::inputs(std::size_t own, std::span<const data::Fields> shards) const {
  const Device device = program_.fields()[0].device;
  std::vector<Tensor> inputs;
  for (const Tensor& field : shards[own]) inputs.push_back(field.to(device));
  inputs.push_back(keys_[own].to(device));
  return inputs;
}

// Forward and backward of one shard.
void StepPlan::begin_shard(StepExecutable& executable, std::int64_t shard,
                           std::span<const data::Fields> shards) {
  const auto own = static_cast<std::size_t>(shard - range().lo);
  executable.begin(inputs(own, shards), outputs_[own]);
}

// Takes the gradients of a shard.
Executable::Receiver StepPlan::receiver(int thread, std::int64_t shard) {
  const bool last = shard + 1 == sums_.range_of(thread).hi;
  return [this, thread, shard, last](std::size_t delivery, std::span<const std::byte> bytes) {
    const auto* values = reinterpret_cast<const float*>(bytes.data());
    const std::size_t parameter = program_.number_of(delivery);
    if (last && streams()) return stream(thread, shard, parameter, values);
    sums_.add(thread, shard, parameter, values);
    if (last && buckets_) buckets_->parameter_is_ready(parameter);
  };
}

void StepPlan::stream(int thread, std::int64_t shard, std::size_t parameter, const float* values) {
  if (!losses_are_finite()) sums_.spoil(thread);
  sums_.add_last(thread, shard, parameter, values,
                 [&](const kvstore::FlatPiece& piece, const float* sum) {
                   const kvstore::Synchronizer::Node node{range(), {sum, piece.size()}};
                   synchronizer_.give(piece.offset, {&node, 1});
                 });
}

// The threads' sums are added piece by piece, where they stay when the rule needs all of them.
void StepPlan::give_pieces() {
  if (!is_finite()) return;
  const std::vector<kvstore::FlatPiece>& pieces = synchronizer_.state().layout().pieces;
  std::atomic<std::size_t> next = 0;
  const bool stays = !synchronizer_.state().is_local();
  team_.run([&](int thread) {
    for (std::size_t i = next++; i < pieces.size(); i = next++) {
      const std::size_t offset = pieces[i].offset, count = pieces[i].size();
      const float* sum = stays ? sums_.node(0, offset, count) : sums_.whole(thread, offset, count);
      if (!kvstore::all_finite({sum, count})) sums_.spoil(thread);
      const kvstore::Synchronizer::Node node{range(), {sum, count}};
      synchronizer_.give(offset, {&node, 1});
    }
  });
}

// Of a stage that does not make the losses they are zeros.
bool StepPlan::losses_are_finite() const {
  return std::all_of(outputs_.begin(), outputs_.end(), [](const std::vector<Tensor>& of_shard) {
    return std::isfinite(*of_shard[StepGraph::kLoss].to(cpu()).data<float>());
  });
}

bool StepPlan::is_finite() const {
  return losses_are_finite() && sums_.is_finite() && row_gradients_.is_finite();
}

bool StepPlan::is_finite_here(const kvstore::FlatParameter& parameter) {
  for (std::size_t n = 0; n < sums_.nodes().size(); ++n)
    if (!kvstore::all_finite({sums_.node(n, parameter.offset, parameter.count), parameter.count}))
      return false;
  return true;
}

void StepPlan::fill_rows() {
  float* row = rows_.data() + static_cast<std::size_t>(range().lo) * row_size_;
  for (const std::vector<Tensor>& of_shard : outputs_) {
    for (std::size_t i = 0; i < first_ids(); ++i)
      row = std::copy_n(of_shard[i].to(cpu()).data<float>(), of_shard[i].numel(), row);
    *row++ = options_.links == nullptr ? compute_seconds_ : 0.0F;
  }
}

std::vector<double> StepPlan::seconds_of(std::span<const ShardRange> ranges) const {
  std::vector<double> seconds;
  for (const ShardRange& range : ranges)
    seconds.push_back(
        range.lo == range.hi ? 0.0 : rows_[static_cast<std::size_t>(range.lo + 1) * row_size_ - 1]);
  return seconds;
}

double StepPlan::mean_of(std::size_t column) const {
  return tree_sum(rows_.data() + column, row_size_, 0, options_.shards) /
         static_cast<double>(options_.shards);
}

// The mean of the shards' new values.
const std::vector<Tensor>& StepPlan::mean_statistics() {
  std::size_t column = StepGraph::kFirstUpdate;
  for (const Tensor& mean : statistics_)
    for (std::int64_t k = 0; k < mean.numel(); ++k)
      mean.data<float>()[k] = static_cast<float>(mean_of(column++));
  return statistics_;
}

void StepPlan::set_keys(std::int64_t step) {
  for (const Tensor& key : keys_) key.data<std::int64_t>()[1] = step;
}

}  // namespace lockstep::train::detail
