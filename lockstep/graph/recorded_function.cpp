// SPDX-License-Identifier: Apache-2.0
#include "lockstep/graph/recorded_function.h"

#include <mutex>

#include "lockstep/autograd/autograd.h"
#include "lockstep/base/error.h"
#include "lockstep/graph/detail/keyed_trace.h"
#include "lockstep/graph/differentiate.h"
#include "lockstep/graph/split.h"

namespace lockstep {
namespace {

// What is compiled: forward takes the inputs and a key and gives outputs, extras and what is kept;
// backward takes those inputs, what is kept, and the gradients of the floating outputs.
struct Traced {
  TwoParts parts;
  std::size_t outputs = 0, extras = 0;
  std::vector<std::size_t> heads;  // the floating ones among the outputs
  bool random = false;
};

Traced trace_both(const RecordedFunction::Function& function, const Infos& infos,
                  const std::vector<std::size_t>& wrt) {
  Traced traced;
  const autograd::PauseScope pause(autograd::is_training());
  const Graph graph = detail::trace_with_key(
      [&](const std::vector<Tensor>& inputs) {
        RecordedFunction::Results results = function(inputs);
        traced.outputs = results.outputs.size();
        traced.extras = results.extras.size();
        std::vector<Tensor> all = std::move(results.outputs);
        all.insert(all.end(), results.extras.begin(), results.extras.end());
        return all;
      },
      infos);
  traced.random = detail::draws_numbers(graph);
  for (std::size_t i = 0; i < traced.outputs; ++i)
    if (is_floating(graph.info(graph.outputs()[i]).dtype)) traced.heads.push_back(i);
  traced.parts =
      split(differentiate(graph, traced.heads, wrt), graph.inputs().size(), graph.outputs().size());
  return traced;
}

}  // namespace

struct RecordedFunction::Compiled {
  Compiled(Traced given, std::vector<std::size_t> wanted, const CompileOptions& options)
      : traced(std::move(given)),
        wrt(std::move(wanted)),
        forward(Executable::compile(traced.parts.first, options)),
        backward(Executable::compile(traced.parts.second, options)) {}

  Tensor key() const {
    const Graph& graph = traced.parts.first;
    const Device device = graph.info(graph.inputs().back()).device;
    return traced.random ? detail::key_for_call().to(device)
                         : Tensor::zeros({3}, DType::int64).to(device);
  }

  Traced traced;
  std::vector<std::size_t> wrt;
  std::mutex mutex;  // an executable runs once at a time
  Executable forward, backward;
};

class RecordedFunction::Call final : public autograd::Function {
 public:
  explicit Call(std::shared_ptr<Compiled> compiled) : compiled_(std::move(compiled)) {}

  std::vector<Tensor> forward(std::span<const Tensor> inputs) override {
    const Traced& traced = compiled_->traced;
    reads_.assign(inputs.begin(), inputs.end());
    reads_.push_back(compiled_->key());
    std::vector<Tensor> made;
    {
      const std::lock_guard lock(compiled_->mutex);
      made = compiled_->forward.run(reads_);
    }
    for (const std::size_t place : traced.parts.kept) reads_.push_back(made[place]);
    const auto end = made.begin() + static_cast<std::ptrdiff_t>(traced.outputs);
    extras_.assign(end, end + static_cast<std::ptrdiff_t>(traced.extras));
    made.resize(traced.outputs);
    infos_.clear();
    for (const Tensor& output : made) infos_.push_back(output.info());
    return made;
  }

  std::vector<Tensor> backward(std::span<const Tensor> gradients) override {
    if (autograd::is_recording())
      throw InvalidArgument(
          "create_graph: the gradient of a compiled function is not recorded; run the function op "
          "by op for gradients of gradients");
    std::vector<Tensor> all = reads_;
    for (const std::size_t head : compiled_->traced.heads) {
      const TensorInfo& info = infos_[head];
      all.push_back(gradients[head].defined()
                        ? gradients[head]
                        : Tensor::zeros(info.shape, info.dtype).to(info.device));
    }
    std::vector<Tensor> made;
    {
      const std::lock_guard lock(compiled_->mutex);
      made = compiled_->backward.run(all);
    }
    std::vector<Tensor> result(compiled_->traced.parts.first.inputs().size() - 1);
    for (std::size_t i = 0; i < made.size(); ++i) result[compiled_->wrt[i]] = made[i];
    return result;
  }

  const std::vector<Tensor>& extras() const { return extras_; }
  const Graph& graph() const { return compiled_->traced.parts.first; }

 private:
  std::shared_ptr<Compiled> compiled_;
  std::vector<Tensor> reads_;  // inputs, key, and what forward kept
  std::vector<Tensor> extras_;
  Infos infos_;
};

RecordedFunction::RecordedFunction(const Function& function, const Infos& infos,
                                   std::vector<std::size_t> wrt, const CompileOptions& options) {
  Traced traced = trace_both(function, infos, wrt);
  compiled_ = std::make_shared<Compiled>(std::move(traced), std::move(wrt), options);
}

RecordedFunction::Results RecordedFunction::operator()(const std::vector<Tensor>& inputs) {
  auto call = std::make_shared<Call>(compiled_);
  Results results;
  results.outputs = autograd::call(call, inputs);
  results.extras = call->extras();
  return results;
}

const Graph* graph_of_call(const autograd::Function& function) {
  const auto* call = dynamic_cast<const RecordedFunction::Call*>(&function);
  return call == nullptr ? nullptr : &call->graph();
}

}  // namespace lockstep
