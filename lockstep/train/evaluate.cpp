// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/evaluate.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <numeric>

#include "lockstep/autograd/autograd.h"
#include "lockstep/base/float_mode.h"
#include "lockstep/base/thread_team.h"
#include "lockstep/data/loader.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/random_ops.h"
#include "lockstep/ops/reduce.h"
#include "lockstep/ops/unary.h"

namespace lockstep::train {
namespace {

constexpr std::int64_t kDefaultBatch = 64;
constexpr std::int64_t kBatchesOfAThread = 4;  // in a round: its results wait to be taken in order

// Forward in predict mode as a graph: the fields and the parameters go in; the mean loss, the
// output and, where the loss knows them, the predicted and the expected classes come out.
struct PredictGraph {
  Graph graph;
  std::size_t fields = 0;
  std::vector<nn::NamedParameter> parameters;
  bool has_classes = false, has_ignored = false;

  static constexpr std::size_t kLoss = 0, kOutput = 1, kPredicted = 2;
};

std::vector<Tensor> add_inputs(PredictGraph& predict, Tracer& tracer, const Infos& fields) {
  std::vector<Tensor> inputs;
  for (const TensorInfo& info : fields)
    inputs.push_back(tracer.input(info, fmt::format("field{}", inputs.size())));
  for (const auto& [name, parameter] : predict.parameters)
    inputs.push_back(tracer.input({parameter.shape(), parameter.dtype(), {}}, name));
  return inputs;
}

void add_outputs(PredictGraph& predict, Tracer& tracer, const LossFunction& loss,
                 const Tensor& output, const Tensor& label) {
  predict.graph.add_output(tracer.value(mean(loss(output, label))), "loss");
  predict.graph.add_output(tracer.value(output), "output");
  const auto [predicted, expected, counted] = loss.classes(output, label);
  predict.has_classes = predicted.defined();
  predict.has_ignored = counted.defined();
  if (!predict.has_classes) return;
  predict.graph.add_output(tracer.value(predicted), "predicted");
  predict.graph.add_output(tracer.value(expected), "expected");
  if (predict.has_ignored) predict.graph.add_output(tracer.value(counted), "counted");
}

PredictGraph trace_predict(nn::Block& net, const LossFunction& loss, const Infos& fields) {
  if (fields.size() < 2)
    throw InvalidArgument("evaluate: a batch needs data and a label, got {} fields", fields.size());
  net.complete_shapes({fields.begin(), fields.end() - 1});
  PredictGraph predict;
  predict.fields = fields.size();
  predict.parameters = net.parameters();
  Tracer tracer(predict.graph);
  const std::vector<Tensor> inputs = add_inputs(predict, tracer, fields);
  std::map<const void*, Tensor> traced;
  for (std::size_t i = 0; i < predict.parameters.size(); ++i) {
    const nn::Parameter& parameter = predict.parameters[i].parameter;
    traced[parameter.identity()] = inputs[predict.fields + i];
    if (parameter.wants_gradient()) autograd::attach_grad(inputs[predict.fields + i]);
  }

  const InterceptScope recording(&tracer);
  const autograd::ModeScope predict_mode(false);
  const RandomScope draws(random_key(0, 0, 0));
  const auto find = [&](const nn::Parameter& parameter) {
    const auto found = traced.find(parameter.identity());
    if (found == traced.end())
      throw InvalidArgument("evaluate: forward uses {}, which is no parameter of the net",
                            parameter.name());
    return found->second;
  };
  const nn::ParameterScope scope(find, [](const nn::Parameter&, const Tensor&) {});
  const auto data_end = inputs.begin() + static_cast<std::ptrdiff_t>(predict.fields) - 1;
  const std::vector<Tensor> outputs = net(std::vector<Tensor>(inputs.begin(), data_end));
  add_outputs(predict, tracer, loss, outputs.at(0), *data_end);
  return predict;
}

// A graph compiled for one shape of batch, once for each thread.
struct Compiled {
  PredictGraph predict;
  std::vector<nn::Mode> modes;  // of the net's blocks when it was traced
  std::vector<std::uint64_t> hooks;
  std::vector<Executable> executables;

  void set_threads(int threads) {
    while (static_cast<int>(executables.size()) < threads)
      executables.push_back(executables[0].clone());
  }

  void set_parameters() {
    for (std::size_t i = 0; i < predict.parameters.size(); ++i)
      executables[0].set_state(predict.fields + i, predict.parameters[i].parameter.data());
  }
};

struct BatchResult {
  std::int64_t samples = 0;
  double loss = 0.0;
  Tensor output;                // only where somebody looks at it: a large vocabulary's is large
  std::vector<Tensor> classes;  // predicted, expected and, where some do not count, which do
  Tensor label;
};

// What is left of a batch when its output was looked at.
struct BatchRecord {
  std::int64_t samples = 0;
  double loss = 0.0;  // mean
  std::int64_t has_classes = 0;
  std::vector<std::int64_t> predicted = {}, expected = {};
};

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
  std::vector<Compiled> compiled;  // a whole batch's, the last one's

  // Parameters are set in what is found too: they may have changed since.
  Compiled& compiled_for(const data::Fields& fields, int threads) {
    const Infos infos = data::infos_of(fields);
    const std::vector<nn::Mode> modes = net->modes();
    const std::vector<std::uint64_t> hooks = net->hook_versions();
    auto found = std::find_if(compiled.begin(), compiled.end(), [&](const Compiled& entry) {
      const Infos own = entry.predict.graph.input_infos();
      return entry.modes == modes && entry.hooks == hooks && entry.predict.fields == infos.size() &&
             std::equal(infos.begin(), infos.end(), own.begin());
    });
    if (found == compiled.end()) {
      compiled.push_back(make(infos));
      found = compiled.end() - 1;
    }
    found->set_threads(threads);
    found->set_parameters();
    return *found;
  }

  Compiled make(const Infos& infos) const {
    Compiled entry{trace_predict(*net, loss, infos), net->modes(), net->hook_versions(), {}};
    CompileOptions options = compile;
    for (std::size_t i = 0; i < entry.predict.parameters.size(); ++i)
      options.states.push_back(infos.size() + i);
    entry.executables.push_back(Executable::compile(entry.predict.graph, options));
    return entry;
  }
};

Evaluator::Evaluator(nn::BlockPtr net, LossFunction loss, CompileOptions compile)
    : impl_(std::make_unique<Impl>(Impl{std::move(net), std::move(loss), std::move(compile), {}})) {
}

Evaluator::~Evaluator() = default;

namespace {

// One evaluation on its way: rounds of batches, each round by all threads, its results taken in
// the order of the batches.
class Pass {
 public:
  Pass(const data::Dataset& dataset, const EvaluateOptions& options)
      : dataset_(dataset), options_(options), team_(options.threads, "evaluate") {
    for (const auto& metric : options_.metrics) metric->reset();
  }

  data::Fields batch(std::int64_t first) const {
    const std::int64_t end = std::min(first + options_.batch, dataset_.size());
    std::vector<std::int64_t> samples(static_cast<std::size_t>(end - first));
    std::iota(samples.begin(), samples.end(), first);
    return data::load_batch(dataset_, samples, options_.transform);
  }

  // All batches of one shape: samples from `first` to `end`.
  void run(Compiled& compiled, std::int64_t first, std::int64_t end) {
    const std::int64_t round = options_.batch * kBatchesOfAThread * options_.threads;
    for (; first < end && !is_stopped(); first += round)
      run_round(compiled, first, std::min(end, first + round));
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
  bool is_stopped() const { return options_.stop != nullptr && options_.stop->load(); }

  void run_round(Compiled& compiled, std::int64_t first, std::int64_t end) {
    const std::int64_t count = (end - first + options_.batch - 1) / options_.batch;
    std::vector<BatchResult> results(static_cast<std::size_t>(count));
    std::atomic<std::int64_t> next = 0;
    team_.run([&](int thread) {
      if (thread >= static_cast<int>(compiled.executables.size())) return;
      Executable& executable = compiled.executables[static_cast<std::size_t>(thread)];
      for (std::int64_t i = next++; i < count; i = next++)
        results[static_cast<std::size_t>(i)] =
            run_batch(executable, compiled.predict, batch(first + i * options_.batch));
    });
    for (const BatchResult& result : results) take(result);
  }

  BatchResult run_batch(Executable& executable, const PredictGraph& predict,
                        const data::Fields& fields) const {
    const std::vector<Tensor> outputs = executable.run(fields);
    BatchResult result;
    result.samples = fields[0].shape(0);
    result.loss = outputs[PredictGraph::kLoss].item();
    if (needs_output()) result.output = outputs[PredictGraph::kOutput];
    if (predict.has_classes)
      result.classes.assign(outputs.begin() + PredictGraph::kPredicted, outputs.end());
    result.label = fields.back();
    return result;
  }

  bool needs_output() const { return !options_.metrics.empty() || options_.on_batch; }

  void take(const BatchResult& batch) {
    BatchRecord record{.samples = batch.samples, .loss = batch.loss};
    if (!batch.classes.empty()) {
      record.predicted = batch.classes[0].to_vector<std::int64_t>();
      record.expected = batch.classes[1].to_vector<std::int64_t>();
      record.has_classes = 1;
    }
    if (batch.classes.size() > 2) keep_counted(record, batch.classes[2].to_vector<std::int64_t>());
    records_.push_back(std::move(record));
    for (const auto& metric : options_.metrics) metric->update(batch.label, batch.output);
    if (options_.on_batch) options_.on_batch(batch.output, batch.label);
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
  if (options.group == nullptr || !options.metrics.empty() || options.on_batch)
    options.group = alone.get();
  const ShardRange own = options.group->range(whole / options.batch);
  Pass pass(dataset, options);
  if (own.lo < own.hi)
    pass.run(impl_->compiled_for(pass.batch(0), options.threads), own.lo * options.batch,
             own.hi * options.batch);
  // The last worker has the incomplete batch too.
  const bool is_last = options.group->rank() + 1 == options.group->workers();
  if (whole < size && is_last) pass.run(impl_->compiled_for(pass.batch(whole), 1), whole, size);
  return pass.result();
}

}  // namespace lockstep::train
