// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/detail/compiled_block.h"

#include <algorithm>

#include "lockstep/base/error.h"

namespace lockstep::nn::detail {
namespace {

// What parameters are while a block is traced: the given tensors, and after an update its value.
class Bindings {
 public:
  Bindings(const std::vector<Parameter>& parameters, std::span<const Tensor> values) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
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
    const auto found = std::find_if(all_.begin(), all_.end(), [&](const Binding& binding) {
      return binding.parameter.same_as(parameter);
    });
    if (found == all_.end())
      throw InvalidArgument("hybridize: forward uses {}, which is no parameter of the block",
                            parameter.name());
    return *found;
  }

  std::vector<Binding> all_;
};

}  // namespace

struct CompiledBlock::Entry {
  Entry(Key key_, const Forward& forward_, std::vector<Parameter> parameters_)
      : key(std::move(key_)),
        forward(forward_),
        parameters(std::move(parameters_)),
        function([this](const std::vector<Tensor>& all) { return run(all); }) {}
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;

  std::vector<Tensor> run(const std::vector<Tensor>& all) {
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(key.inputs);
    Bindings bindings(parameters, {first, all.end()});
    const ParameterScope scope(
        [&](const Parameter& p) { return bindings.get(p); },
        [&](const Parameter& p, const Tensor& value) { bindings.set(p, value); });
    std::vector<Tensor> outputs = forward({all.begin(), first});
    bindings.check_gradients();
    updated = bindings.append_updates(outputs);
    return outputs;
  }

  Key key;
  const Forward& forward;
  std::vector<Parameter> parameters;
  std::vector<Parameter> updated;  // whose new values the last outputs are
  CompiledFunction function;
};

CompiledBlock::CompiledBlock(const Block& block, Forward forward)
    : block_(block), forward_(std::move(forward)) {}

CompiledBlock::Entry& CompiledBlock::entry_for(Key key, std::vector<Parameter> parameters) {
  for (const auto& entry : entries_)
    if (entry->key == key) return *entry;
  entries_.push_back(std::make_shared<Entry>(std::move(key), forward_, std::move(parameters)));
  return *entries_.back();
}

std::vector<Tensor> CompiledBlock::operator()(const std::vector<Tensor>& inputs) {
  const std::lock_guard lock(mutex_);
  Key key{.inputs = inputs.size(),
          .training = autograd::is_training(),
          .modes = block_.modes(),
          .hooks = block_.hook_versions()};
  std::vector<Tensor> all = inputs;
  std::vector<Parameter> parameters;
  for (const NamedParameter& named : block_.parameters()) {
    parameters.push_back(named.parameter);
    key.frozen.push_back(named.parameter.is_frozen() ||
                         named.parameter.grad_mode() == autograd::GradMode::off);
    all.push_back(named.parameter.data());
  }
  for (const Tensor& tensor : all) key.infos.push_back(tensor.info());
  Entry& entry = entry_for(std::move(key), std::move(parameters));
  std::vector<Tensor> outputs = entry.function(all);
  const std::size_t first = outputs.size() - entry.updated.size();
  for (std::size_t i = 0; i < entry.updated.size(); ++i)
    entry.updated[i].update(outputs[first + i]);
  outputs.resize(first);
  return outputs;
}

}  // namespace lockstep::nn::detail
