// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/evaluate.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <numeric>
#include <optional>

#include "lockstep/base/float_mode.h"
#include "lockstep/base/recent_list.h"
#include "lockstep/base/thread_team.h"
#include "lockstep/cluster/membership/workers_of.h"
#include "lockstep/comm/agreement.h"
#include "lockstep/data/loader.h"
#include "lockstep/train/detail/bad_sample.h"
#include "lockstep/train/detail/predict_graph.h"
#include "lockstep/train/detail/predict_run.h"

namespace lockstep::train {
namespace {

using detail::PredictGraph;

constexpr std::int64_t kDefaultBatch = 64;
constexpr std::int64_t kBatchesOfAThread = 4;  // in a round: its results wait to be taken in order

// A graph compiled for one shape of batch, once for each thread.
struct Compiled {
  PredictGraph predict;
  Infos infos;                           // of the graph's inputs
  std::vector<nn::Block::State> states;  // of all blocks when it was traced
  std::deque<detail::PredictRun> executables;

  void set_parameters(const EvaluateOptions& options) {
    for (std::size_t i = 0; i < predict.parameters.size(); ++i)
      if (executables[0].has_parameter(i))
        executables[0].set_parameter(
            i, options.parameter ? options.parameter(i) : predict.parameters[i].parameter.data());
  }

  // Whether the net's parameters are still those, so that other shapes can share their contents.
  bool takes(const Infos& batch) const {
    return predict.fields == batch.size() && std::equal(batch.begin(), batch.end(), infos.begin());
  }

  bool has_parameters(const std::vector<nn::NamedParameter>& now) const {
    return std::equal(now.begin(), now.end(), infos.begin() + fields_count(), infos.end(),
                      [](const nn::NamedParameter& named, const TensorInfo& info) {
                        return named.parameter.dtype() == info.dtype &&
                               named.parameter.shape() == info.shape;
                      });
  }

  std::ptrdiff_t fields_count() const { return static_cast<std::ptrdiff_t>(predict.fields); }
};

struct BatchResult {
  std::int64_t samples = 0;
  double loss = 0.0;
  Tensors outputs;  // only where somebody looks at them: a large vocabulary's is large
  Tensors classes;  // predicted, expected and, where some do not count, which do
  Tensors labels;
};

// What is left of a batch when its output was looked at.
struct BatchRecord {
  std::int64_t samples = 0;
  double loss = 0.0;  // mean
  std::int64_t has_classes = 0;
  std::vector<std::int64_t> predicted = {}, expected = {};
};

bool looks_at_outputs(const EvaluateOptions& options) {
  return !options.metrics.empty() || options.on_batch || options.on_outputs;
}

// Takes out what does not count.
void keep_counted(BatchRecord& record, const std::vector<std::int64_t>& counted) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < counted.size(); ++i) {
    if (counted[i] == 0) continue;
    record.predicted[kept] = record.predicted[i];
    record.expected[kept++] = record.expected[i];
  }
  record.predicted.resize(kept);
  record.expected.resize(kept);
}

void append(std::string& bytes, const void* data, std::size_t count) {
  bytes.append(static_cast<const char*>(data), count);
}

// For other workers, which run the same program.
std::string to_bytes(const std::vector<BatchRecord>& records) {
  std::string bytes;
  for (const BatchRecord& record : records) {
    const std::int64_t labels = static_cast<std::int64_t>(record.expected.size());
    append(bytes, &record.samples, sizeof record.samples);
    append(bytes, &record.loss, sizeof record.loss);
    append(bytes, &record.has_classes, sizeof record.has_classes);
    append(bytes, &labels, sizeof labels);
    append(bytes, record.predicted.data(), record.predicted.size() * sizeof(std::int64_t));
    append(bytes, record.expected.data(), record.expected.size() * sizeof(std::int64_t));
  }
  return bytes;
}

std::vector<BatchRecord> from_bytes(const std::string& bytes) {
  std::vector<BatchRecord> records;
  const char* at = bytes.data();
  const auto take = [&](void* data, std::size_t count) {
    check(at + count <= bytes.data() + bytes.size(), "records of an evaluation are cut");
    if (count > 0) std::memcpy(data, at, count);
    at += count;
  };
  while (at < bytes.data() + bytes.size()) {
    BatchRecord record;
    std::int64_t labels = 0;
    take(&record.samples, sizeof record.samples);
    take(&record.loss, sizeof record.loss);
    take(&record.has_classes, sizeof record.has_classes);
    take(&labels, sizeof labels);
    record.predicted.resize(static_cast<std::size_t>(labels));
    record.expected.resize(static_cast<std::size_t>(labels));
    take(record.predicted.data(), record.predicted.size() * sizeof(std::int64_t));
    take(record.expected.data(), record.expected.size() * sizeof(std::int64_t));
    records.push_back(std::move(record));
  }
  return records;
}

}  // namespace

struct Evaluator::Impl {
  nn::BlockPtr net;
  LossFunction loss;
  CompileOptions compile;
  FieldRoles fields;
  RecentList<Compiled> compiled;  // all over one copy of the parameters

  std::vector<nn::Block::State> all_states() const {
    std::vector<nn::Block::State> states = net->states();
    if (loss.block() == nullptr) return states;
    const std::vector<nn::Block::State> of_loss = loss.block()->states();
    states.insert(states.end(), of_loss.begin(), of_loss.end());
    return states;
  }

  // Parameters are set in what is found too: they may have changed since.
  Compiled& compiled_for(const data::Fields& batch, int threads, const EvaluateOptions& options) {
    if (compiled.size() > 0 &&
        (compiled.last_used()->predict.cuts != options.cuts ||
         !compiled.last_used()->has_parameters(trained_parameters(*net, loss))))
      compiled.clear();
    const Infos infos = data::infos_of(batch);
    const std::vector<nn::Block::State> states = all_states();
    Compiled* found = compiled.find(
        [&](const Compiled& entry) { return entry.states == states && entry.takes(infos); });
    if (found == nullptr) found = &compiled.add(make(infos, options));
    while (static_cast<int>(found->executables.size()) < threads)
      found->executables.push_back(new_clone(*found));
    found->set_parameters(options);
    return *found;
  }

  Compiled make(const Infos& infos, const EvaluateOptions& options) {
    Compiled entry{
        detail::trace_predict(*net, loss, fields, infos, options.cuts), {}, all_states(), {}};
    entry.infos = entry.predict.graph.input_infos();
    entry.predict.homes = options.homes;
    const Compiled* last = compiled.last_used();
    const bool is_alike = last != nullptr && last->predict.fields == infos.size();
    entry.executables.push_back(
        is_alike ? detail::PredictRun(entry.predict, compile, last->executables[0])
                 : detail::PredictRun(entry.predict, compile, own_segments(options)));
    entry.predict.graph = {};
    entry.predict.cells.clear();
    return entry;
  }

  static detail::SegmentRange own_segments(const EvaluateOptions& options) {
    const auto segments = static_cast<std::int64_t>(options.cuts.size()) + 1;
    if (options.links == nullptr) return {0, static_cast<std::int32_t>(segments)};
    return detail::segments_of_stage(segments, options.links->stages(), options.links->stage());
  }

  // Computes where those with its number do in other shapes.
  detail::PredictRun new_clone(const Compiled& entry) const {
    const std::size_t number = entry.executables.size();
    for (const Compiled& other : compiled)
      if (other.executables.size() > number)
        return entry.executables[0].clone(other.executables[number]);
    return entry.executables[0].clone();
  }
};

Evaluator::Evaluator(nn::BlockPtr net, LossFunction loss, CompileOptions compile, FieldRoles fields)
    : impl_(std::make_unique<Impl>(Impl{std::move(net), std::move(loss), compile, std::move(fields),
                                        RecentList<Compiled>(compile.plans)})) {}

Evaluator::~Evaluator() = default;

namespace {

// What batches of one shape are computed with, by so many threads at the most.
using PlanFor = std::function<Compiled&(const data::Fields& batch, int threads)>;

// A batch of a round.
struct Item {
  std::int64_t first = 0;    // sample
  data::Fields fields = {};  // where it is loaded, and its turn has not come
  std::optional<BatchResult> result = {};
};

// One evaluation on its way: rounds of batches, each round by all threads, its results taken in
// the order of the batches.
class Pass {
 public:
  Pass(const data::Dataset& dataset, const EvaluateOptions& options, PlanFor plan_for)
      : dataset_(dataset),
        options_(options),
        plan_for_(std::move(plan_for)),
        team_(options.threads, "evaluate") {
    for (const auto& metric : options_.metrics) metric->reset();
  }

  // Samples from `first` to `end`.
  void run(std::int64_t first, std::int64_t end) {
    const std::int64_t round = options_.batch * kBatchesOfAThread * options_.threads;
    for (; first < end && !is_stopped_anywhere(); first += round)
      run_round(first, std::min(end, first + round));
  }

  // The same on every worker: batches are counted in their order, whoever computed them.
  Evaluation result() {
    for (const std::string& bytes : options_.group->share(to_bytes(records_)))
      for (const BatchRecord& record : from_bytes(bytes)) count(record);
    const auto samples = static_cast<double>(result_.samples);
    result_.whole = result_.samples == dataset_.size();
    if (result_.samples > 0) result_.loss /= samples;
    if (labels_ > 0) result_.accuracy = static_cast<double>(right_) / static_cast<double>(labels_);
    for (const auto& metric : options_.metrics)
      for (const auto& value : metric->get_all()) result_.metrics.push_back(value);
    return std::move(result_);
  }

 private:
  data::Fields batch(std::int64_t first) const {
    const std::int64_t end = std::min(first + options_.batch, dataset_.size());
    std::vector<std::int64_t> samples(static_cast<std::size_t>(end - first));
    std::iota(samples.begin(), samples.end(), first);
    return data::load_batch(dataset_, samples, options_.transform);
  }

  bool is_stopped() const { return options_.stop != nullptr && options_.stop->load(); }

  // The stages of a pipeline stop together.
  bool is_stopped_anywhere() const {
    if (options_.links == nullptr) return is_stopped();
    const std::vector<std::string> all = comm::share_texts(
        options_.links->pipeline(), is_stopped() ? "stop" : "", options_.links->options());
    return std::ranges::any_of(all, [](const std::string& its) { return !its.empty(); });
  }

  // One shape after the other: that of the first batch whose turn has not come, and of all that
  // are like it.
  void run_round(std::int64_t first, std::int64_t end) {
    std::vector<Item> items;
    for (; first < end; first += options_.batch) items.push_back({.first = first});
    std::vector<Item*> left;
    for (Item& item : items) left.push_back(&item);
    while (!left.empty()) {
      run_alike(left);
      std::erase_if(left, [](const Item* item) { return item->result.has_value(); });
    }
    for (const Item& item : items) take(*item.result);
  }

  void run_alike(const std::vector<Item*>& left) {
    if (left[0]->fields.empty()) left[0]->fields = batch(left[0]->first);
    Compiled& compiled = select_plan(left[0]->fields, left.size());
    if (options_.links != nullptr) return run_stages(compiled, left);
    std::atomic<std::size_t> next = 0;
    team_.run([&](int thread) {
      if (thread >= static_cast<int>(compiled.executables.size())) return;
      detail::PredictRun& executable = compiled.executables[static_cast<std::size_t>(thread)];
      for (std::size_t i = next++; i < left.size(); i = next++)
        run_if_alike(executable, compiled, *left[i]);
    });
  }

  // Batch after batch goes through the pipeline; then all stages have all results.
  void run_stages(Compiled& compiled, const std::vector<Item*>& left) const {
    detail::PredictRun& executable = compiled.executables[0];
    std::vector<std::pair<Item*, detail::PredictRun::Passed>> passed;
    for (Item* item : left) {
      if (item->fields.empty()) item->fields = batch(item->first);
      if (!compiled.takes(data::infos_of(item->fields))) continue;
      detail::PredictRun::Passed own = executable.run_stage(item->fields, *options_.links);
      if (!passed.empty()) passed.back().second.finish_sending();  // one is kept at a time
      passed.emplace_back(item, std::move(own));
    }
    for (auto& [item, own] : passed) {
      item->result =
          result_of(executable.share(own, *options_.links), compiled.predict, item->fields);
      item->fields.clear();
    }
  }

  Compiled& select_plan(const data::Fields& batch, std::size_t batches) {
    const int threads =
        static_cast<int>(std::min(batches, static_cast<std::size_t>(options_.threads)));
    if (plan_ == nullptr || !plan_->takes(data::infos_of(batch)) ||
        static_cast<int>(plan_->executables.size()) < threads)
      plan_ = &plan_for_(batch, threads);
    return *plan_;
  }

  void run_if_alike(detail::PredictRun& executable, const Compiled& compiled, Item& item) const {
    if (item.fields.empty()) item.fields = batch(item.first);
    if (!compiled.takes(data::infos_of(item.fields))) return;
    item.result = result_of(run_executable(executable, item.fields, item.first), compiled.predict,
                            item.fields);
    item.fields.clear();
  }

  BatchResult result_of(const Tensors& outputs, const PredictGraph& predict,
                        const data::Fields& fields) const {
    BatchResult result;
    result.samples = fields[0].shape(0);
    result.loss = outputs[PredictGraph::kLoss].item();
    if (needs_outputs())
      result.outputs.assign(outputs.begin() + static_cast<std::ptrdiff_t>(predict.first_output()),
                            outputs.end());
    if (predict.has_classes)
      result.classes.assign(outputs.begin() + PredictGraph::kPredicted,
                            outputs.begin() + static_cast<std::ptrdiff_t>(predict.first_output()));
    result.labels = labels_of(predict.roles, fields);
    return result;
  }

  // What only values tell, such as a label that is no class, is an op's error: it names the sample.
  static Tensors run_executable(detail::PredictRun& executable, const data::Fields& fields,
                                std::int64_t first) {
    try {
      return executable.run(fields);
    } catch (const InvalidArgument&) {
      const auto refused = detail::find_refused_row(
          fields, [&](const data::Fields& alike) { executable.run(alike); });
      if (!refused) throw;
      throw InvalidArgument("evaluate: sample {} of the data set: {}", first + refused->row,
                            refused->reason);
    }
  }

  bool needs_outputs() const { return looks_at_outputs(options_); }

  void take(const BatchResult& batch) {
    BatchRecord record{.samples = batch.samples, .loss = batch.loss};
    if (!batch.classes.empty()) {
      record.predicted = batch.classes[0].to_vector<std::int64_t>();
      record.expected = batch.classes[1].to_vector<std::int64_t>();
      record.has_classes = 1;
    }
    if (batch.classes.size() > 2) keep_counted(record, batch.classes[2].to_vector<std::int64_t>());
    records_.push_back(std::move(record));
    for (const auto& metric : options_.metrics) metric->update_all(batch.labels, batch.outputs);
    if (options_.on_outputs) options_.on_outputs(batch.outputs, batch.labels);
    if (options_.on_batch)
      options_.on_batch(batch.outputs.at(0), batch.labels.empty() ? Tensor() : batch.labels[0]);
  }

  void count(const BatchRecord& record) {
    result_.samples += record.samples;
    result_.loss += record.loss * static_cast<double>(record.samples);
    if (!record.has_classes) return;
    result_.has_accuracy = true;
    labels_ += static_cast<std::int64_t>(record.expected.size());
    for (std::size_t i = 0; i < record.expected.size(); ++i)
      right_ += record.predicted[i] == record.expected[i];
    if (!options_.keep_predictions) return;
    result_.predictions.insert(result_.predictions.end(), record.predicted.begin(),
                               record.predicted.end());
    result_.labels.insert(result_.labels.end(), record.expected.begin(), record.expected.end());
  }

  const data::Dataset& dataset_;
  const EvaluateOptions& options_;
  PlanFor plan_for_;
  Compiled* plan_ = nullptr;  // of the last batches
  ThreadTeam team_;
  std::vector<BatchRecord> records_;  // of the batches computed here
  Evaluation result_;
  std::int64_t right_ = 0;
  std::int64_t labels_ = 0;
};

}  // namespace

Evaluation Evaluator::run(const data::Dataset& dataset, const EvaluateOptions& given) {
  const FlushSubnormals flush;
  EvaluateOptions options = given;
  if (options.batch == 0) options.batch = kDefaultBatch;
  if (options.batch < 1)
    throw InvalidArgument("evaluate: batch is {}, expected 1 or more", options.batch);
  if (options.threads < 1)
    throw InvalidArgument("evaluate: threads is {}, expected 1 or more", options.threads);
  const std::int64_t size = dataset.size(), whole = size / options.batch * options.batch;
  if (size == 0) throw InvalidArgument("evaluate: the data set is empty");
  options.threads = static_cast<int>(
      std::min<std::int64_t>(options.threads, std::max<std::int64_t>(1, size / options.batch)));
  const std::unique_ptr<kvstore::Group> alone = kvstore::group_of_one();
  std::unique_ptr<kvstore::Group> same_stage;
  if (options.links != nullptr) {
    options.threads = 1;
    comm::Communicator& stage = options.links->stage_of_all();
    same_stage =
        kvstore::group_of(stage, cluster::workers_of(stage), options.links->options().timeout);
    options.group = same_stage.get();
  }
  if (options.group == nullptr || looks_at_outputs(options)) options.group = alone.get();
  const ShardRange own = options.group->range(whole / options.batch);
  Pass pass(dataset, options, [&](const data::Fields& batch, int threads) -> Compiled& {
    return impl_->compiled_for(batch, threads, options);
  });
  // The last worker has the incomplete batch too.
  const bool is_last = options.group->rank() + 1 == options.group->workers();
  pass.run(own.lo * options.batch, is_last ? size : own.hi * options.batch);
  Evaluation result = pass.result();
  if (!options.keep_compiled) impl_->compiled.clear();
  return result;
}

}  // namespace lockstep::train
