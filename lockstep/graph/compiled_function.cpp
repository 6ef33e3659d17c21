// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "lockstep/autograd/autograd.h"
#include "lockstep/graph/executable.h"
#include "lockstep/ops/random_ops.h"
#include "lockstep/tensor/philox.h"

namespace lockstep {
namespace {

// The tape and the tracer see ops, not executables. Recording counts whatever the inputs are: the
// function may hold parameters of its own.
bool is_watched(std::span<const Tensor> inputs) {
  return autograd::is_recording() ||
         std::any_of(inputs.begin(), inputs.end(),
                     [](const Tensor& input) { return input.is_symbolic(); });
}

// A key of its own for everything that a compiled function draws in one call: a function of the
// scope's key and of the call's place among the scope's draws.
Tensor key_for_call() {
  const RandomScope::Draw draw = RandomScope::next();
  const std::vector<std::int64_t> key = draw.key.to(cpu()).to_vector<std::int64_t>();
  const auto words = philox({.seed = static_cast<std::uint64_t>(key[0]),
                             .step = static_cast<std::uint32_t>(key[1]),
                             .shard = static_cast<std::uint32_t>(key[2]),
                             .use = static_cast<std::uint32_t>(draw.use)},
                            0xffffffffu);
  return random_key(std::uint64_t{words[0]} << 32 | words[1], static_cast<std::uint32_t>(key[1]),
                    static_cast<std::uint32_t>(key[2]));
}

}  // namespace

CompiledFunction::CompiledFunction(TensorFunction function, CompileOptions options)
    : function_(std::move(function)), options_(std::move(options)) {
  if (!options_.states.empty() || !options_.carries.empty())
    throw InvalidArgument("compile: a function has no states; compile its graph to an Executable");
}

// Random draws inside the function take their key from one more input, so that each call draws
// anew.
CompiledFunction::Entry CompiledFunction::make_entry(Infos infos) const {
  Infos with_key = infos;
  with_key.push_back({{3}, DType::int64, infos.empty() ? Device() : infos[0].device});
  const Graph graph = trace(
      [&](const std::vector<Tensor>& all) {
        const RandomScope draws(all.back());
        return function_({all.begin(), all.end() - 1});
      },
      with_key);
  const bool random =
      count_uses(graph)[static_cast<std::size_t>(graph.inputs().back().node)][0] > 0;
  return {std::move(infos), autograd::is_training(), random, Executable::compile(graph, options_)};
}

CompiledFunction::Entry& CompiledFunction::entry_for(std::span<const Tensor> inputs) {
  Infos infos;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) throw InvalidArgument("compile: input {} is undefined", i);
    infos.push_back(inputs[i].info());
  }
  for (Entry& entry : entries_)
    if (entry.infos == infos && entry.training == autograd::is_training()) return entry;
  entries_.push_back(make_entry(std::move(infos)));
  return entries_.back();
}

std::vector<Tensor> CompiledFunction::operator()(TensorList inputs) {
  if (is_watched(inputs)) return function_({inputs.begin(), inputs.end()});
  Entry& entry = entry_for(inputs);
  std::vector<Tensor> all(inputs.begin(), inputs.end());
  const Device device = inputs.empty() ? Device() : inputs[0].device();
  all.push_back((entry.random ? key_for_call() : no_key_).to(device));
  return entry.executable.run(all);
}

CompiledFunction compile(TensorFunction function, CompileOptions options) {
  return CompiledFunction(std::move(function), std::move(options));
}

}  // namespace lockstep
