// SPDX-License-Identifier: Apache-2.0
#include "lockstep/autograd/detail/tape.h"

#include <algorithm>

#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/known_ops.h"
#include "lockstep/ops/plain.h"
#include "lockstep/ops/shape_attrs.h"
#include "lockstep/tensor/trace_value.h"

namespace lockstep::autograd {
namespace {

struct ThreadState {
  Recording recording = Recording::off;
  bool training = false;
  std::uint64_t next_id = 0;
};

thread_local ThreadState thread_state;

std::uint64_t id_above(const std::vector<Edge>& edges) {
  std::uint64_t id = thread_state.next_id;
  for (const Edge& edge : edges)
    if (edge && edge->node) id = std::max(id, edge->node->id() + 1);
  thread_state.next_id = id + 1;
  return id;
}

// Only through inputs that are floating and no step functions do gradients flow.
bool wants_gradient(std::span<const Tensor> inputs) {
  return std::any_of(inputs.begin(), inputs.end(), [](const Tensor& input) {
    return requires_grad(input) && !live_entry(input)->flat;
  });
}

void add_node(TapeRecord record, std::span<const Tensor> outputs) {
  const bool flat = record.flat;
  const auto node = std::make_shared<TapeNode>(std::move(record));
  for (std::size_t i = 0; i < outputs.size(); ++i)
    outputs[i].set_tape_entry(std::make_shared<TapeEntry>(
        TapeEntry{.node = node, .output = i, .flat = flat || !is_floating(outputs[i].dtype())}));
}

// A handle may become a leaf later, which a tracer must not see in what was recorded before.
Tensor as_recorded(const Tensor& input) {
  if (!input.is_symbolic()) return input;
  const Tensor snapshot = without_entry(input);
  snapshot.set_tape_entry(live_entry(input));
  return snapshot;
}

// Comparisons, roundings, indices: a head behind them has gradients, and they are zero.
void record_flat(TapeRecord record, std::span<const Tensor> inputs,
                 std::span<const Tensor> outputs) {
  record.flat = true;
  for (const Tensor& input : inputs) {
    record.edges.push_back(live_entry(input));
    record.inputs.push_back(as_recorded(input));
  }
  add_node(std::move(record), outputs);
}

std::string_view name_of_call(const TapeRecord& record) {
  if (record.op != nullptr) return record.op->name;
  return record.function ? "function" : "alias";
}

class Tape final : public OpInterceptor {
 public:
  std::vector<Tensor> intercept(const OpDef& op, std::span<const Tensor> inputs,
                                const Attrs& attrs) override {
    const bool record = is_recording() && has_history(inputs) && !stops(op, attrs);
    std::vector<Tensor> outputs = run_outside(op, inputs, attrs);
    if (!record) return outputs;
    if (op.differentiable() && wants_gradient(inputs))
      record_call({.op = &op, .attrs = attrs, .inputs = {inputs.begin(), inputs.end()}}, outputs);
    else
      record_flat({.op = &op, .attrs = attrs}, inputs, outputs);
    return outputs;
  }

  // What was recorded of a target's old values would be wrong, and the write itself has no
  // gradient: neither the target's nor that of what is written.
  void before_write(const char* function, const Tensor& target) override {
    if (!is_recording() || !requires_grad(target) || target.tape_entry()->flat) return;
    if (target.tape_entry()->node != nullptr)
      throw InvalidArgument(
          "{}: {} has a gradient, which would be wrong, since writing is not recorded: detach() "
          "it, "
          "or use where(), concat() or scatter()",
          function, target.info().str());
    throw InvalidArgument(
        "{}: {} is a leaf that wants a gradient, and ops are recorded: write before recording, or "
        "under a PauseScope",
        function, target.info().str());
  }

 private:
  // A function is not there any more when the graph that it was traced into is run on the tape.
  static bool stops(const OpDef& op, const Attrs& attrs) {
    if (&op != &known_ops().stop_gradient) return false;
    if (std::get<bool>(attr_field(attrs, "function")))
      throw InvalidArgument(
          "stop_gradient: a graph that holds the result of an autograd::Function has no gradient");
    return true;
  }

  // A tape further out must not record the call a second time.
  static std::vector<Tensor> run_outside(const OpDef& op, std::span<const Tensor> inputs,
                                         const Attrs& attrs) {
    OuterScope outside;
    RecordingFlag once(is_recording() ? Recording::off : thread_state.recording);
    return apply(op, inputs, attrs);
  }
};

}  // namespace

TapeNode::TapeNode(TapeRecord record)
    : record_(std::make_unique<TapeRecord>(std::move(record))),
      id_(id_above(record_->edges)),
      name_(name_of_call(*record_)),
      output_count_(record_->outputs.size()) {}

void TapeNode::free() {
  using Records = std::vector<std::unique_ptr<TapeRecord>>;
  thread_local Records* draining = nullptr;
  if (record_ == nullptr) return;
  if (draining != nullptr) {
    draining->push_back(std::move(record_));
    return;
  }
  Records records;
  records.push_back(std::move(record_));
  draining = &records;
  while (!records.empty()) {
    // Its end may free further nodes, which then join the list.
    const std::unique_ptr<TapeRecord> last = std::move(records.back());
    records.pop_back();
  }
  draining = nullptr;
}

void TapeNode::forget() {
  free();
  forgotten_ = true;
}

const Edge& live_entry(const Tensor& x) {
  static const Edge none;
  const Edge& entry = x.tape_entry();
  return entry && entry->node && entry->node->is_forgotten() ? none : entry;
}

RecordingFlag::RecordingFlag(Recording state) : saved_(thread_state.recording) {
  thread_state.recording = state;
}

RecordingFlag::~RecordingFlag() { thread_state.recording = saved_; }

bool has_history(std::span<const Tensor> inputs) {
  return std::any_of(inputs.begin(), inputs.end(),
                     [](const Tensor& input) { return live_entry(input) != nullptr; });
}

Tensor without_entry(const Tensor& x) {
  Tensor result = x.detach();
  if (x.is_symbolic()) result.trace_value()->history = x.trace_value()->history;
  return result;
}

void record_call(TapeRecord record, std::span<const Tensor> outputs) {
  for (Tensor& input : record.inputs) {
    record.edges.push_back(live_entry(input));
    input = as_recorded(input);
  }
  for (const Tensor& output : outputs) record.outputs.push_back(without_entry(output));
  add_node(std::move(record), outputs);
}

Tensor alias(const Tensor& x) {
  const Tensor result = without_entry(x);
  record_call({.inputs = {x}}, std::span(&result, 1));
  return result;
}

struct RecordScope::State {
  explicit State(bool train_mode) : mode(train_mode), recording(Recording::on), scope(&tape) {}
  ModeScope mode;
  RecordingFlag recording;
  Tape tape;
  InterceptScope scope;
};

RecordScope::RecordScope(bool train_mode) : state_(std::make_unique<State>(train_mode)) {}
RecordScope::~RecordScope() = default;

struct PauseScope::State {
  explicit State(bool train_mode) : mode(train_mode), recording(Recording::paused) {}
  ModeScope mode;
  RecordingFlag recording;
};

PauseScope::PauseScope(bool train_mode) : state_(std::make_unique<State>(train_mode)) {}
PauseScope::~PauseScope() = default;

ModeScope::ModeScope(bool train_mode) : saved_(thread_state.training) {
  thread_state.training = train_mode;
}

ModeScope::~ModeScope() { thread_state.training = saved_; }

bool is_recording() { return thread_state.recording == Recording::on; }
bool is_paused() { return thread_state.recording == Recording::paused; }
bool is_training() { return thread_state.training; }

namespace {

// A handle of its own: the function may have kept, or passed on, the one it returned. A graph
// learns that it cannot differentiate the call.
Tensor output_of_function(const Tensor& output) {
  if (!output.is_symbolic() || !is_floating(output.dtype())) return output.detach();
  Tensor result = apply_one(known_ops().stop_gradient, {output},
                            Attrs::of(StopGradientAttrs{.function = true}));
  result.trace_value()->history = History::whole;
  return result;
}

}  // namespace

std::vector<Tensor> call(std::shared_ptr<Function> function, TensorList given) {
  if (function == nullptr) throw InvalidArgument("function: there is no function to call");
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (!given[i].defined()) throw InvalidArgument("function: input {} is undefined", i);
    inputs.push_back(plain(given[i]));
  }
  std::vector<Tensor> outputs;
  {
    const RecordingFlag pause(Recording::paused);
    outputs = function->forward(inputs);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].defined()) throw InvalidArgument("function: output {} is undefined", i);
      outputs[i] = output_of_function(outputs[i]);
    }
  }
  if (!is_recording() || !has_history(inputs)) return outputs;
  if (wants_gradient(inputs))
    record_call({.function = std::move(function), .inputs = {inputs.begin(), inputs.end()}},
                outputs);
  else
    record_flat({.function = std::move(function)}, inputs, outputs);
  return outputs;
}

}  // namespace lockstep::autograd
