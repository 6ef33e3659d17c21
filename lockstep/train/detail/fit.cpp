// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/detail/fit.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <utility>

#include "lockstep/base/file.h"
#include "lockstep/comm/agreement.h"
#include "lockstep/kvstore/mesh_mode.h"
#include "lockstep/nn/complete_shapes.h"
#include "lockstep/observe/text.h"
#include "lockstep/train/detail/agreement.h"
#include "lockstep/train/detail/bad_sample.h"
#include "lockstep/train/detail/evaluations.h"
#include "lockstep/train/detail/part_settings.h"
#include "lockstep/train/detail/same_shapes.h"

namespace lockstep::train::detail {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

namespace {

constexpr int kUnsteadySteps = 2;

// Of batch norm, in a shard: fewer are warned of. The error of ImageNet nets grows from 8 samples
// down (Wu and He, 2018).
constexpr std::int64_t kFewSamples = 8;
constexpr std::int64_t kFewValues = 16;

// That a result keeps: the first half of them and the last. Callbacks hear all.
constexpr std::ptrdiff_t kMostWarnings = 1000;

// What is wrong with a folder shows before the first step, not when there is something to lose.
void check_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error && ::access(folder.c_str(), W_OK | X_OK) != 0)
    error = std::error_code(errno, std::generic_category());
  if (error) throw IoError("{}: checkpoints cannot be written there: {}", folder, error.message());
}

std::int64_t steps_of(const FitOptions& options, std::int64_t steps_per_epoch) {
  if (options.steps < 0 || options.epochs < 0)
    throw InvalidArgument("train: {} epochs or {} steps cannot be done", options.epochs,
                          options.steps);
  if (options.steps > 0) return options.steps;
  if (options.epochs > std::numeric_limits<std::int64_t>::max() / steps_per_epoch)
    throw InvalidArgument("train: {} epochs of {} steps are too many to count", options.epochs,
                          steps_per_epoch);
  return options.epochs * steps_per_epoch;
}

// An update may overflow though loss and gradients were finite.
void check_finite(const std::string& name, const Tensor& tensor, std::int64_t step) {
  const float* values = tensor.data<float>();
  for (std::int64_t i = 0; i < tensor.numel(); ++i)
    if (!std::isfinite(values[i]))
      throw Diverged("train: parameter {} is not finite after step {}; try a lower learning rate",
                     name, step);
}

std::size_t count_outputs(nn::Block& net, const FieldRoles& roles, const data::Fields& batch) {
  std::size_t count = 0;
  const auto forward = [&](const Tensors& inputs) {
    Tensors outputs = net(inputs);
    count = outputs.size();
    return outputs;
  };
  nn::complete_shapes(forward, data::infos_of(inputs_of(roles, batch)));
  return count;
}

}  // namespace

void SteadyRate::add(double seconds, std::int64_t samples) {
  if (++seen_ <= kUnsteadySteps) return;
  seconds_ += seconds;
  samples_ += static_cast<double>(samples);
}

Fit::Fit(Parts parts, const data::DatasetPtr& dataset, const FitOptions& options)
    : parts_(std::move(parts)),
      dataset_(dataset),
      options_(options),
      configuration_(agreed_configuration()),
      tickets_(first_tickets()),
      loader_(std::in_place, dataset_, make_sampler(), loader_options()),
      total_steps_(steps_of(options, loader_->steps_per_epoch())),
      has_state_(!is_late()),
      begin_(now()) {}

// Before anything else: a worker that has other data or options hears of it, and so do the others,
// instead of waiting for one that does something else.
std::string Fit::agreed_configuration() const {
  if (dataset_ == nullptr) throw InvalidArgument("train: there is no data set");
  std::string configuration = with_part_settings(
      configuration_json(parts_.options, *parts_.optimizer, options_, dataset_->size()),
      *parts_.net, parts_.loss);
  if (group().workers() > 1)
    check_same_configuration(group(), agreement_json(configuration, *parts_.net, parts_.loss,
                                                     parts_.options, options_, *dataset_));
  return configuration;
}

data::ShardSampler Fit::make_sampler() const {
  const TrainerOptions& own = parts_.options;
  data::SamplerPtr sampler = options_.sampler;
  if (sampler == nullptr) sampler = data::random_sampler(dataset_->size(), own.seed);
  return {sampler, own.global_batch, own.shards};
}

data::LoaderOptions Fit::loader_options() {
  ShardRange range = shards();
  const bool told = out_of_step() != nullptr;
  if (told) range = {0, tickets_.shards};
  return {.transform = options_.transform,
          .seed = parts_.options.seed,
          .threads = options_.loader_threads,
          .prefetch = options_.prefetch,
          .first_shard = range.lo,
          .shards = range.hi - range.lo,
          .told = told,
          .skip_bad = options_.skip_bad,
          .on_bad = [this](const std::string& message) { warn(message); }};
}

void Fit::open_store() {
  if (options_.checkpoints.empty() || !is_first()) return;  // rank 0 reads and writes for all
  store_.emplace(options_.checkpoints,
                 CheckpointOptions{.keep_last = options_.keep_last,
                                   .keep_best = true,
                                   .warn = [this](const std::string& line) { warn(line); }});
  older_history_.emplace(options_.checkpoints);
}

// Callbacks decide by the history, so that all of it is needed, on all workers.
void Fit::read_older_history() {
  if (state_.missing_before == 0) return;
  const std::string lines = kvstore::first_does(
      group(), [&] { return older_history_ ? older_history_->resume(state_.missing_before) : ""; });
  const std::string place = options_.checkpoints + "/history.jsonl";
  std::vector<EvaluationRecord> records = records_from(lines, place);
  if (records.size() < state_.missing_before)
    warn(
        fmt::format("{}: has {} of the {} evaluations before those in the checkpoint: what looks "
                    "at the history may decide otherwise",
                    place, records.size(), state_.missing_before));
  state_.missing_before = 0;
  state_.history.insert(state_.history.begin(), std::make_move_iterator(records.begin()),
                        std::make_move_iterator(records.end()));
}

// A run that had ended and now goes on has evaluated where one that never ended does not: what
// decides by the history must not see it.
void Fit::drop_evaluation_of_the_end() {
  std::vector<EvaluationRecord>& history = state_.history;
  if (step_ >= total_steps_ || is_due(options_.evaluate_every)) return;
  if (!history.empty() && history.back().step == step_) history.pop_back();
}

void Fit::write_older_history() {
  try {
    if (const std::size_t count = state_.history_before(); count > 0)
      older_history_->write(state_.history, count);
  } catch (const IoError& error) {
    warn(fmt::format("old evaluations are not written: {}", error.what()));
  }
}

std::optional<Checkpoint> Fit::find_checkpoint() {
  std::optional<Checkpoint> checkpoint;
  const std::string file = kvstore::first_does(group(), [&] {
    if (options_.resume && options_.checkpoints.empty())
      throw InvalidArgument("train: resume needs the folder of the run's checkpoints");
    if (store_) checkpoint = read_checkpoint_to_resume();
    return checkpoint && group().workers() > 1 ? file_of(*checkpoint) : std::string();
  });
  if (!is_first() && !file.empty()) checkpoint = read_checkpoint(MemoryFile(file).path());
  writes_ = !group().from_first(store_ ? "writes" : "").empty();
  return checkpoint;
}

// The others may not see the folder.
std::string Fit::file_of(const Checkpoint& checkpoint) const {
  for (const CheckpointFile& file : store_->list())
    if (file.step == checkpoint.step) return read_file(file.path);
  return {};
}

std::optional<Checkpoint> Fit::read_checkpoint_to_resume() {
  check_folder(options_.checkpoints);
  const std::vector<CheckpointFile> files = store_->list();
  if (!options_.resume && !files.empty())
    throw InvalidArgument(
        "{}: has checkpoints already, the newest of step {}: resume, or choose "
        "another folder",
        options_.checkpoints, files.back().step);
  std::optional<Checkpoint> checkpoint = store_->load_newest();
  if (checkpoint)
    check_configuration(options_.checkpoints, checkpoint->configuration, configuration_,
                        options_.older_configuration, options_.may_differ);
  if (options_.resume && !checkpoint)
    warn(fmt::format("{}: there is no checkpoint to resume; starting at step 0",
                     options_.checkpoints));
  return checkpoint;
}

kvstore::Group& Fit::group() const { return parts_.options.mode->group(); }

bool Fit::is_first() const { return has_state_ && group().is_first(); }

// Workers that see different things would compute different things.
void Fit::agree_on_parameters() {
  comm::compare_texts(group().share(result_.params_sha256),
                      [](std::size_t rank, const std::string& first, const std::string& its) {
                        throw InvalidArgument("train: worker 0 has parameters {}, worker {} has {}",
                                              first, rank, its);
                      });
}

// The first batch tells the engine its shapes, and how parameters lie in memory follows from them:
// where shapes vary, a resumed run has those of the run's first step.
void Fit::make_engine() {
  for (const auto& [name, parameter] : trained_parameters(*parts_.net, parts_.loss))
    parameter.initialize(name, nn::init::fan_in(), parts_.options.seed);
  first_batches_ = load_first_batches();
  const std::vector<TensorInfo> fields = data::infos_of(first_batches_->at(0));
  check_same_shapes(group(), fields);
  if (state_.fields.empty()) state_.fields = fields;
  choose_mesh();
  engine_.emplace(parts_.net, parts_.loss, parts_.optimizer, state_.fields, engine_options());
  if (engine_->shards_meet() && out_of_step() != nullptr)
    throw Unsupported(
        "train: the net has statistics over the global batch (sync_batch_norm), and workers that "
        "are not in step have none in common: expected kvstore local, allreduce or ps_sync");
  result_.step_bytes = engine_->step_bytes();
  if (out_of_step() != nullptr) loop_.emplace(*parts_.options.mode, *engine_, *loader_, tickets_);
}

void Fit::restore(const Checkpoint& checkpoint) {
  set_trained_parameters(*parts_.net, parts_.loss, checkpoint.parameters, options_.checkpoints);
  engine_->load(*parts_.net);
  engine_->set_slots(checkpoint.slots);
  engine_->set_residuals(checkpoint.residuals);
}

void Fit::begin_run() {
  open_store();
  const auto checkpoint = find_checkpoint();
  if (!checkpoint) return make_engine();
  step_ = first_step_ = written_step_ = checkpoint->step;
  state_ = FitState::from_json(checkpoint->training, options_.checkpoints);
  read_older_history();
  drop_evaluation_of_the_end();
  make_engine();
  restore(*checkpoint);
  count_reductions();
  if (state_.history.empty()) return;
  evaluated_step_ = state_.history.back().step;
  result_.validation = evaluation_of(state_.history.back());
}

FitResult Fit::run() {
  try {
    go();
  } catch (...) {
    leave_committed_parameters();
    throw;
  }
  return std::move(result_);
}

void Fit::go() {
  is_late() ? make_engine() : begin_run();
  check_watched(options_, engine_->has_accuracy());
  if (is_late() && !regroup({.has_state = false, .why = "a new worker is ready"})) return;
  if (!is_late()) compare_bits();
  watch_speeds();
  note_instruction_set();
  remember_parameters();
  for (const CallbackPtr& callback : options_.callbacks) callback->on_train_begin(*this);
  check_batch_norms();
  check_outputs();
  until_done();
  if (result_.is_dismissed) return;
  for (const CallbackPtr& callback : options_.callbacks) callback->on_train_end(*this, result_);
  if (take_set_parameters()) result_.params_sha256 = engine_->params_sha256();
}

void Fit::train_to_end() {
  catch_up();
  while (should_go_on()) {
    loop_ ? one_stretch() : one_step();
    if (pause_requested_ && step_ < total_steps_) return;  // the next generation does what is due
    do_what_is_due();
  }
  finish();
}

// Statistics of a few samples are rough: the net learns on numbers that differ from the running
// ones that it is evaluated with.
void Fit::check_batch_norms() {
  if (!is_first() || engine_->batch_norm_sizes().empty()) return;
  const BatchNormSize& smallest = engine_->batch_norm_sizes().front();
  if (smallest.values >= kFewValues && smallest.samples >= kFewSamples) return;
  warn(fmt::format(
      "batch norm {} takes its statistics from {} per channel in a shard of {}, which costs "
      "accuracy: use fewer shards or a larger global batch, {} samples a shard or more",
      smallest.layer, observe::format_things(smallest.values, "value"),
      observe::format_things(smallest.samples, "sample"),
      smallest.values == smallest.samples ? kFewValues : kFewSamples));
}

// What a net says and no loss hears may be meant so.
void Fit::check_outputs() {
  if (!is_first() || !first_batches_ || !parts_.loss.takes_first_output()) return;
  const data::Fields& batch = first_batches_->at(0);
  const std::size_t outputs = count_outputs(*parts_.net, engine_->fields(), batch);
  if (outputs > 1 && !labels_of(engine_->fields(), batch).empty())
    warn(
        fmt::format("the net gives {} outputs, and {} takes the first alone: a loss of (outputs, "
                    "labels) takes them all",
                    outputs, parts_.loss.name()));
}

// Different processors, or different files, show before the first step.
void Fit::compare_bits() {
  state_.same_bits &=
      have_same_bits(group(), engine_->probe(), parts_.options.allow_different_bits);
  result_.same_bits = state_.same_bits;
}

// Steps of two instruction sets have bits that no one of them gives.
void Fit::note_instruction_set() {
  const std::string now = instruction_set_in_use();
  const bool changes = !state_.isa.empty() && state_.isa != now && step_ < total_steps_;
  if (changes)
    warn(
        fmt::format("{}: steps 1 to {} were computed with {}, the others are with {}: the result "
                    "will have the bits of neither, and is not invariant",
                    options_.checkpoints, step_, state_.isa, now));
  state_.same_isa &= !changes;
  state_.isa = step_ < total_steps_ || state_.isa.empty() ? now : state_.isa;
  result_.isa = state_.isa;
  result_.same_isa = state_.same_isa;
}

// An evaluation that was interrupted is made now: its checkpoint was written without it.
void Fit::catch_up() {
  if (step_ == 0) return;
  if (std::exchange(has_recovered_, false)) return do_what_is_due();
  if (!is_due(options_.evaluate_every)) return;
  evaluate();
  write_checkpoint();
}

bool Fit::should_go_on() {
  if (step_ >= total_steps_) return false;
  if (group().workers() == 1 && (is_asked_to_stop() || is_asked_to_leave()))
    request_stop(kInterrupted);
  return !stop_requested_;
}

bool Fit::is_asked_to_stop() const { return options_.stop != nullptr && options_.stop->load(); }
bool Fit::is_asked_to_leave() const { return options_.leave != nullptr && options_.leave->load(); }

void Fit::one_step() {
  const double begin = now();
  std::vector<data::Fields> batches =
      first_batches_ ? std::move(*first_batches_) : alone([&] { return loader_->step(step_); });
  first_batches_.reset();
  const double rate = learning_rate(step_);
  take_set_parameters();
  const bool survives = parts_.options.survival != nullptr;
  if (survives) leave_if_asked();
  const StepResult step = run_step(rate, batches,
                                   {.stop = group().workers() > 1 && is_asked_to_stop(),
                                    .pause = survives && parts_.options.survival->wants_change()});
  if (step.stop) request_stop(kInterrupted);
  pause_requested_ = step.pause;
  if (!step.finite) fail_diverged(step.loss, batches);
  leave_net();
  state_.loss_sum += step.loss;
  state_.accuracy_sum += step.accuracy;
  ++step_;
  if (recovery_) note_recovery();
  if (step.cost) costs_.add(*step.cost);
  tell_step(
      {.loss = step.loss, .accuracy = step.accuracy, .learning_rate = rate, .cost = step.cost});
  rate_.add(now() - begin, global_batch());
  if (step_ % steps_per_epoch() == 0) end_epoch();
  if (dealer_ && step.cost && !pause_requested_) redeal_if_worthwhile(*step.cost);
}

// The rest of the event is known.
void Fit::tell_step(StepEvent event) {
  event.step = step_;
  event.epoch = (step_ - 1) / steps_per_epoch();
  event.has_accuracy = engine_->has_accuracy();
  event.samples_per_s = rate_.samples_per_s();
  event.seconds = seconds();
  last_event_ = event;
  for (const CallbackPtr& callback : options_.callbacks) callback->on_step_end(*this, event);
}

// What only values tell, such as a label that is no class, is an op's error: it names the sample.
StepResult Fit::run_step(double rate, const std::vector<data::Fields>& batches,
                         const StepWishes& wishes) {
  try {
    return engine_->run(share().number, rate, batches, wishes);
  } catch (const InvalidArgument&) {
    const auto refused = engine_->find_refused_sample(share().number, batches);
    if (!refused) throw;
    throw InvalidArgument("train: sample {} of the data set: {}", number_of(*refused),
                          refused->reason);
  }
}

std::int64_t Fit::number_of(const BadSample& sample) const {
  data::ShardSampler sampler = make_sampler();
  return sampler.samples(share().step, share().first_shard + sample.shard)
      .at(static_cast<std::size_t>(sample.row));
}

// Of the whole history, each time: a resumed run has the rate of the uninterrupted one.
void Fit::count_reductions() {
  if (!options_.schedule.plateau) return;
  std::vector<double> values;
  for (const EvaluationRecord& record : state_.history)
    values.push_back(record.metric(options_.schedule.plateau->metric));
  reductions_ = optim::count_reductions(*options_.schedule.plateau, values);
}

// Every worker's own sums are finite, and what they sent of them is not.
void Fit::check_sent() {
  const double largest = parts_.options.mode->largest_sent();
  if (largest >= std::numeric_limits<float>::max()) return;
  const std::vector<std::string> all = group().share(engine_->find_bad_sum());
  if (std::find(all.begin(), all.end(), "") != all.end()) return;
  throw Diverged(
      "train: the gradient of {} is beyond {}, the most that {} holds, at step {}; use bf16 "
      "compression, which holds it, or a lower learning rate{}",
      all[0], largest, parts_.options.mode->description(), step_ + 1, kept_checkpoint());
}

std::string Fit::kept_checkpoint() {
  if (store_) store_->wait();
  const std::string newest = newest_checkpoint();
  return newest.empty() ? "" : fmt::format("; the last good checkpoint is {}", newest);
}

// One worker's finding is everybody's: the others see good numbers.
std::string Fit::first_finding(const std::string& own) {
  for (const std::string& finding : group().share(own))
    if (!finding.empty()) return finding;
  return {};
}

void Fit::check_data(const std::vector<data::Fields>& batches) {
  const auto bad = find_non_finite(batches, engine_->fields());
  const std::string finding = first_finding(
      bad ? fmt::format("sample {} of the data set has {}", number_of(*bad), bad->reason) : "");
  if (!finding.empty())
    throw Diverged("train: {}, at step {}{}", finding, step_ + 1, kept_checkpoint());
}

void Fit::fail_diverged(double loss, const std::vector<data::Fields>& batches) {
  check_data(batches);
  check_sent();
  const std::string culprit =
      first_finding(batches.empty() ? "" : engine_->find_bad_op(share().number, batches));
  const std::string first = culprit.empty() ? "" : fmt::format(": {} is not finite first", culprit);
  const double shown = std::isnan(loss) ? std::abs(loss) : loss;  // a NaN's sign means nothing
  const std::string what =
      std::isfinite(loss) ? "a gradient is not finite" : fmt::format("the loss is {}", shown);
  throw Diverged("train: {} at step {}{}; try a lower learning rate{}", what, step_ + 1, first,
                 kept_checkpoint());
}

bool Fit::is_due(std::int64_t every) const {
  return step_ % (every > 0 ? every : steps_per_epoch()) == 0;
}

// Each happens once for a step, however often it is asked for.
void Fit::do_what_is_due() {
  if (is_due(options_.evaluate_every)) evaluate();
  if (is_due(options_.checkpoint_every)) write_checkpoint();
}

void Fit::end_epoch() {
  const auto steps = static_cast<double>(steps_per_epoch());
  state_.last_loss = state_.loss_sum / steps;
  state_.last_accuracy = state_.accuracy_sum / steps;
  state_.loss_sum = state_.accuracy_sum = 0.0;
  const EpochEvent event{.step = step_,
                         .epoch = step_ / steps_per_epoch() - 1,
                         .loss = state_.last_loss,
                         .accuracy = state_.last_accuracy,
                         .has_accuracy = engine_->has_accuracy()};
  for (const CallbackPtr& callback : options_.callbacks) callback->on_epoch_end(*this, event);
}

void Fit::write_checkpoint() {
  if (!writes_ || written_step_ == step_) return;
  take_set_parameters();
  const std::vector<io::NamedTensor> residuals = engine_->residuals();  // by all workers
  engine_->collect_slots();
  written_step_ = step_;
  Snapshot snapshot = engine_->snapshot(store_.has_value());  // by all workers
  if (!store_) return;
  Checkpoint checkpoint{std::move(snapshot)};
  checkpoint.residuals = residuals;
  checkpoint.step = step_;
  checkpoint.seed = parts_.options.seed;
  checkpoint.configuration = configuration_;
  checkpoint.training = state_.to_json();
  for (const auto& [name, tensor] : checkpoint.parameters) check_finite(name, tensor, step_);
  if (evaluated_step_ == step_) {
    const EvaluationRecord& record = state_.history.back();
    const Monitor monitor = monitor_for(options_, record);
    checkpoint.metric = record.metric(monitor.metric);
    checkpoint.maximize = monitor.maximize;
  }
  write_older_history();
  store_->write(std::move(checkpoint));
}

// A later file than the run's own step was there before, and did not let itself be read.
std::string Fit::newest_checkpoint() const {
  if (!store_) return {};
  std::vector<CheckpointFile> files = store_->list();
  std::erase_if(files, [&](const CheckpointFile& file) { return file.step > step_; });
  return files.empty() ? "" : files.back().path;
}

// A run that was stopped goes on later as if it had not been: its checkpoint has no evaluation that
// is not due. One that was interrupted does not evaluate at all: somebody waits for its end.
void Fit::finish() {
  const bool is_whole = step_ >= total_steps_;
  if (is_whole) evaluate();
  write_checkpoint();
  if (!is_whole && result_.stop_reason != kInterrupted) evaluate();
  result_.saved = store_ && store_->wait();
  bring_net();
  fill_result();
}

void Fit::fill_result() {
  const std::int64_t begun = step_ % steps_per_epoch();
  result_.steps = step_;
  result_.resumed_from = first_step_;
  result_.epochs = step_ / steps_per_epoch();
  result_.stopped = step_ < total_steps_ || result_.stop_reason == kInterrupted;
  result_.train_loss = begun > 0 ? state_.loss_sum / static_cast<double>(begun) : state_.last_loss;
  result_.train_accuracy =
      begun > 0 ? state_.accuracy_sum / static_cast<double>(begun) : state_.last_accuracy;
  result_.has_accuracy = engine_->has_accuracy();
  result_.history = state_.history;
  result_.samples_per_s = rate_.samples_per_s();
  take_set_parameters();
  result_.params_sha256 = engine_->params_sha256();
  if (costs_.total().steps > 0) result_.cost = costs_.total();
  agree_on_parameters();
  result_.checkpoint = newest_checkpoint();
  result_.seconds = seconds();
  result_.generation = parts_.options.survival == nullptr ? group().membership().generation
                                                          : parts_.options.survival->generation();
  result_.is_first = is_first();
  result_.deal.clear();  // a loss at the end has this filled again
  for (const ShardRange& range : kvstore::deal_of(*parts_.options.mode, parts_.options.shards))
    result_.deal.push_back(range.hi - range.lo);
  result_.events = membership_events();
  compare_workers();
}

void Fit::request_stop(const std::string& reason) {
  if (!stop_requested_) result_.stop_reason = reason;
  stop_requested_ = true;
}

void Fit::warn(const std::string& line) {
  std::vector<std::string>& kept = result_.warnings;
  if (std::ssize(kept) == kMostWarnings) kept.erase(kept.begin() + kMostWarnings / 2);
  kept.push_back(line);
  for (const CallbackPtr& callback : options_.callbacks) callback->on_warning(*this, line);
}

double Fit::seconds() const { return now() - begin_; }

}  // namespace lockstep::train::detail
