// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/detail/compiled_block.h"

#include <algorithm>
#include <unordered_map>

#include "lockstep/base/error.h"

namespace lockstep::nn::detail {
namespace {

// What parameters are while a block is traced: the given tensors, and after an update its value.
class Bindings {
 public:
  Bindings(const std::vector<Parameter>& parameters, std::span<const Tensor> values) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      places_.emplace(parameters[i].identity(), i);
      all_.push_back({parameters[i], values[i], false});
      // Leaves, as they are op by op, for a forward that asks for gradients itself.
      if (values[i].is_symbolic() && parameters[i].wants_gradient())
        autograd::attach_grad(values[i]);
    }
  }

  // A compiled forward has no place to leave gradients in.
  void check_gradients() const {
    for (const Binding& binding : all_)
      if (binding.value.is_symbolic() && autograd::gradient(binding.value).defined())
        throw InvalidArgument(
            "hybridize: forward calls backward() and would leave a gradient in {}: use "
            "autograd::grad, or do not compile the block",
            binding.parameter.name());
  }

  Tensor get(const Parameter& parameter) { return find(parameter).value; }

  void set(const Parameter& parameter, const Tensor& value) {
    Binding& binding = find(parameter);
    binding.value = value;
    binding.updated = true;
  }

  // Adds the new values to the outputs; returns whose they are.
  std::vector<Parameter> append_updates(std::vector<Tensor>& outputs) const {
    std::vector<Parameter> updated;
    for (const Binding& binding : all_) {
      if (!binding.updated) continue;
      updated.push_back(binding.parameter);
      outputs.push_back(binding.value);
    }
    return updated;
  }

 private:
  struct Binding {
    Parameter parameter;
    Tensor value;
    bool updated;
  };

  Binding& find(const Parameter& parameter) {
    const auto found = places_.find(parameter.identity());
    if (found == places_.end())
      throw InvalidArgument("hybridize: forward uses {}, which is no parameter of the block",
                            parameter.name());
    return all_[found->second];
  }

  std::vector<Binding> all_;
  std::unordered_map<const void*, std::size_t> places_;
};

std::uint64_t arrangement_of(CallNotes* notes) {
  return notes != nullptr ? notes->arrangement() : 0;
}

}  // namespace

CompiledBlock::CompiledBlock(Block& block, Forward forward, std::size_t plans)
    : block_(block), forward_(std::move(forward)), entries_(plans) {}

// Blocks rarely change between calls, and then only pointers are compared.
void CompiledBlock::look_at_structure(const std::vector<Tensor>& inputs) {
  seen_.clear();
  seen_.add(block_);
  if (structure_ != nullptr && seen_ == *structure_) return;
  structure_ = nullptr;
  parameters_.clear();
  bool all_whole = true;
  for (const NamedParameter& named : block_.parameters()) {
    parameters_.push_back(named.parameter);
    all_whole = all_whole && named.parameter.has_whole_shape();
  }
  if (!all_whole) {
    std::vector<TensorInfo> infos;
    for (const Tensor& input : inputs) infos.push_back(input.info());
    block_.complete_shapes(infos);
  }
  for (const Entry& entry : entries_)
    if (*entry.structure == seen_) structure_ = entry.structure;
  if (structure_ == nullptr) structure_ = std::make_shared<const Structure>(seen_);
}

CompiledBlock::Entry CompiledBlock::make_entry(const std::vector<Tensor>& all, std::size_t inputs,
                                               CallNotes* notes) const {
  Infos infos;
  for (const Tensor& tensor : all) infos.push_back(tensor.info());
  std::vector<Parameter> updated;
  const auto run = [&](const std::vector<Tensor>& values) {
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(inputs);
    Bindings bindings(parameters_, {first, values.end()});
    const ParameterScope scope(
        [&](const Parameter& p) { return bindings.get(p); },
        [&](const Parameter& p, const Tensor& value) { bindings.set(p, value); });
    std::vector<Tensor> outputs = forward_({values.begin(), first});
    bindings.check_gradients();
    updated = bindings.append_updates(outputs);
    return outputs;
  };
  CompiledCall call(run, infos, options_, [&]() -> const CompiledCall* {
    const Entry* last = entries_.last_used();
    return last ? &last->call : nullptr;
  });
  return {structure_,
          std::move(infos),
          inputs,
          autograd::is_training(),
          arrangement_of(notes),
          notes != nullptr ? notes->left : nullptr,
          std::move(updated),
          std::move(call)};
}

CompiledBlock::Entry& CompiledBlock::entry_for(const std::vector<Tensor>& all, std::size_t inputs,
                                               CallNotes* notes) {
  const std::uint64_t arrangement = arrangement_of(notes);
  const auto is_it = [&](const Entry& entry) {
    return entry.structure == structure_ && entry.inputs == inputs &&
           entry.arrangement == arrangement && entry.training == autograd::is_training() &&
           std::equal(all.begin(), all.end(), entry.infos.begin(), entry.infos.end(),
                      [](const Tensor& x, const TensorInfo& info) { return x.info() == info; });
  };
  Entry* known = entries_.find(is_it);
  return known != nullptr ? *known : entries_.add(make_entry(all, inputs, notes));
}

std::vector<Tensor> CompiledBlock::operator()(const std::vector<Tensor>& inputs) {
  const std::lock_guard lock(mutex_);
  look_at_structure(inputs);
  std::vector<Tensor> all;
  all.reserve(inputs.size() + parameters_.size() + 1);  // and a key
  all = inputs;
  for (const Parameter& parameter : parameters_) all.push_back(parameter.data());
  CallNotes* notes = CallNotes::of(block_);
  Entry& entry = entry_for(all, inputs.size(), notes);
  if (notes != nullptr) notes->left = entry.left;
  std::vector<Tensor> outputs = entry.call(std::move(all));
  const std::size_t first = outputs.size() - entry.updated.size();
  for (std::size_t i = 0; i < entry.updated.size(); ++i)
    entry.updated[i].update(outputs[first + i]);
  outputs.resize(first);
  return outputs;
}

}  // namespace lockstep::nn::detail
