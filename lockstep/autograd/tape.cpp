// SPDX-License-Identifier: Apache-2.0
#include "lockstep/autograd/detail/tape.h"

#include <algorithm>

#include "lockstep/ops/dispatch.h"

namespace lockstep::autograd {
namespace {

struct ThreadState {
  bool recording = false;
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

std::string_view name_of_call(const TapeRecord& record) {
  if (record.op != nullptr) return record.op->name;
  return record.function ? "function" : "alias";
}

class Tape final : public OpInterceptor {
 public:
  std::vector<Tensor> intercept(const OpDef& op, std::span<const Tensor> inputs,
                                const Attrs& attrs) override {
    const bool record = thread_state.recording && op.differentiable() && wants_gradient(inputs);
    std::vector<Tensor> outputs = run_outside(op, inputs, attrs);
    if (record)
      record_call({.op = &op, .attrs = attrs, .inputs = {inputs.begin(), inputs.end()}}, outputs);
    return outputs;
  }

 private:
  // A tape further out must not record the call a second time.
  static std::vector<Tensor> run_outside(const OpDef& op, std::span<const Tensor> inputs,
                                         const Attrs& attrs) {
    OuterScope outside;
    RecordingFlag off(false);
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

RecordingFlag::RecordingFlag(bool on) : saved_(thread_state.recording) {
  thread_state.recording = on;
}

RecordingFlag::~RecordingFlag() { thread_state.recording = saved_; }

bool wants_gradient(std::span<const Tensor> inputs) {
  return std::any_of(inputs.begin(), inputs.end(),
                     [](const Tensor& input) { return requires_grad(input); });
}

void record_call(TapeRecord record, std::span<const Tensor> outputs) {
  const auto floating = [](const Tensor& t) { return is_floating(t.dtype()); };
  if (std::none_of(outputs.begin(), outputs.end(), floating)) return;
  for (const Tensor& input : record.inputs) record.edges.push_back(input.tape_entry());
  for (const Tensor& output : outputs) record.outputs.push_back(output.detach());
  const auto node = std::make_shared<TapeNode>(std::move(record));
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (floating(outputs[i]))
      outputs[i].set_tape_entry(std::make_shared<TapeEntry>(TapeEntry{.node = node, .output = i}));
}

Tensor alias(const Tensor& x) {
  const Tensor result = x.detach();
  record_call({.inputs = {x}}, std::span(&result, 1));
  return result;
}

struct RecordScope::State {
  explicit State(bool train_mode) : mode(train_mode), recording(true), scope(&tape) {}
  ModeScope mode;
  RecordingFlag recording;
  Tape tape;
  InterceptScope scope;
};

RecordScope::RecordScope(bool train_mode) : state_(std::make_unique<State>(train_mode)) {}
RecordScope::~RecordScope() = default;

struct PauseScope::State {
  explicit State(bool train_mode) : mode(train_mode), recording(false) {}
  ModeScope mode;
  RecordingFlag recording;
};

PauseScope::PauseScope(bool train_mode) : state_(std::make_unique<State>(train_mode)) {}
PauseScope::~PauseScope() = default;

ModeScope::ModeScope(bool train_mode) : saved_(thread_state.training) {
  thread_state.training = train_mode;
}

ModeScope::~ModeScope() { thread_state.training = saved_; }

bool is_recording() { return thread_state.recording; }
bool is_training() { return thread_state.training; }

std::vector<Tensor> call(std::shared_ptr<Function> function, TensorList inputs) {
  if (function == nullptr) throw InvalidArgument("function: there is no function to call");
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i].defined()) throw InvalidArgument("function: input {} is undefined", i);
  std::vector<Tensor> outputs;
  {
    RecordingFlag off(false);
    outputs = function->forward(inputs);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined()) throw InvalidArgument("function: output {} is undefined", i);
    // A handle of its own: the function may have kept, or passed on, the one it returned.
    outputs[i] = outputs[i].detach();
  }
  if (thread_state.recording && wants_gradient(inputs))
    record_call({.function = std::move(function), .inputs = {inputs.begin(), inputs.end()}},
                outputs);
  return outputs;
}

}  // namespace lockstep::autograd
