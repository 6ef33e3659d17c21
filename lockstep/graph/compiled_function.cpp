// SPDX-License-Identifier: Apache-2.0
#include "lockstep/graph/compiled_function.h"

#include <algorithm>

#include "lockstep/autograd/autograd.h"
#include "lockstep/graph/detail/keyed_trace.h"

namespace lockstep {
namespace {

// The tape and the tracer see ops, not executables. Recording counts whatever the inputs are: the
// function may hold parameters of its own.
bool is_watched(std::span<const Tensor> inputs) {
  return autograd::is_recording() ||
         std::any_of(inputs.begin(), inputs.end(),
                     [](const Tensor& input) { return input.is_symbolic(); });
}

}  // namespace

CompiledCall::CompiledCall(const TensorFunction& function, const Infos& infos,
                           const CompileOptions& options, const Find& find_like)
    : CompiledCall(detail::trace_with_key(function, infos), options, find_like) {}

CompiledCall::CompiledCall(const Graph& graph, const CompileOptions& options, const Find& find_like)
    : random_(detail::draws_numbers(graph)),
      executable_(compile(graph, options, find_like())),
      no_key_(Tensor::zeros({3}, DType::int64).to(graph.info(graph.inputs().back()).device)) {}

// A function's arena and constants are on one device: what is elsewhere starts anew.
Executable CompiledCall::compile(const Graph& graph, const CompileOptions& options,
                                 const CompiledCall* like) {
  const Device& device = graph.info(graph.inputs().back()).device;
  return like != nullptr && like->no_key_.device() == device
             ? Executable::compile(graph, options, like->executable_)
             : Executable::compile(graph, options);
}

std::vector<Tensor> CompiledCall::operator()(std::vector<Tensor> inputs) {
  inputs.push_back(random_ ? detail::key_for_call().to(no_key_.device()) : no_key_);
  return executable_.run(inputs);
}

CompiledFunction::CompiledFunction(TensorFunction function, CompileOptions options)
    : function_(std::move(function)), options_(std::move(options)), entries_(options_.plans) {
  if (!options_.states.empty() || !options_.carries.empty())
    throw InvalidArgument("compile: a function has no states; compile its graph to an Executable");
}

CompiledFunction::Entry& CompiledFunction::entry_for(std::span<const Tensor> inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i].defined()) throw InvalidArgument("compile: input {} is undefined", i);
  const bool training = autograd::is_training();
  Entry* known = entries_.find([&](const Entry& entry) {
    return entry.training == training &&
           std::equal(inputs.begin(), inputs.end(), entry.infos.begin(), entry.infos.end(),
                      [](const Tensor& x, const TensorInfo& info) { return x.info() == info; });
  });
  if (known != nullptr) return *known;
  Infos infos;
  for (const Tensor& input : inputs) infos.push_back(input.info());
  CompiledCall call(function_, infos, options_, [&]() -> const CompiledCall* {
    const Entry* last = entries_.last_used();
    return last ? &last->call : nullptr;
  });
  return entries_.add({std::move(infos), training, std::move(call)});
}

std::vector<Tensor> CompiledFunction::operator()(TensorList inputs) {
  if (is_watched(inputs)) return function_({inputs.begin(), inputs.end()});
  return entry_for(inputs).call({inputs.begin(), inputs.end()});
}

CompiledFunction compile(TensorFunction function, CompileOptions options) {
  return CompiledFunction(std::move(function), std::move(options));
}

}  // namespace lockstep
