// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/ways.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "lockstep/autograd/autograd.h"
#include "lockstep/graph/differentiate.h"
#include "lockstep/graph/executable.h"
#include "lockstep/nn/layers.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/ops.h"
#include "lockstep/optim/optimizers.h"
#include "lockstep/train/step_engine.h"

namespace lockstep::testing {
namespace {

std::set<std::string>& seen() {
  static std::set<std::string> names;
  return names;
}

// Every op takes memory that the pool has not used before, so that what a kernel leaves unwritten
// is seen (tests/oracle/guarded_memory.cpp).
class FreshMemory final : public OpInterceptor {
 public:
  Tensors intercept(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs) override {
    const OuterScope outer;
    seen().emplace(op.name);
    release_unused_memory();
    return apply(op, inputs, attrs);
  }
};

// Of every op the last kernel that takes the inputs: the reference.
class ReferenceKernels final : public OpInterceptor {
 public:
  Tensors intercept(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs) override {
    const OuterScope outer;
    release_unused_memory();
    for (std::size_t i = op.cpu.size(); i-- > 1;) try {
        return apply(with_kernel(op, i), inputs, attrs);
      } catch (const Unsupported&) {
      }
    return apply(op, inputs, attrs);
  }

 private:
  // They stay where they are: prepared kernels are cached by address.
  static const OpDef& with_kernel(const OpDef& op, std::size_t kernel) {
    static std::map<std::pair<std::string_view, std::size_t>, OpDef> ops;
    const auto [place, is_new] = ops.emplace(std::pair(op.name, kernel), op);
    if (is_new) place->second.cpu = op.cpu.subspan(kernel, 1);
    return place->second;
  }
};

Tensors leaves_of(const Case& c, const Tensors& inputs) {
  Tensors leaves;
  for (const Tensor& input : inputs) leaves.push_back(input.detach());
  for (std::size_t i : c.wrt) autograd::attach_grad(leaves[i]);
  return leaves;
}

Tensors picked(const Tensors& all, const std::vector<std::size_t>& which) {
  Tensors result;
  for (std::size_t i : which) result.push_back(all[i]);
  return result;
}

Tensors joined(Tensors a, const Tensors& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Tensors on_the_tape(const Case& c, const Tensors& inputs) {
  const Tensors leaves = leaves_of(c, inputs);
  Tensors all;
  {
    const autograd::RecordScope record;
    all = c(leaves);
  }
  if (c.head < 0) return all;
  if (!autograd::requires_grad(all.back())) return joined(all, Tensors(c.wrt.size()));
  return joined(all, autograd::grad({&all.back(), 1}, picked(leaves, c.wrt)));
}

Tensors eager(const Case& c, const Tensors& inputs) {
  FreshMemory fresh;
  const InterceptScope scope(&fresh);
  return c(inputs);
}

Tensors tape(const Case& c, const Tensors& inputs) {
  FreshMemory fresh;
  const InterceptScope scope(&fresh);
  return on_the_tape(c, inputs);
}

Tensors reference(const Case& c, const Tensors& inputs) {
  ReferenceKernels kernels;
  const InterceptScope scope(&kernels);
  return on_the_tape(c, inputs);
}

Graph graph_of(const Case& c) {
  const Graph forward = trace([&](const Tensors& in) { return c(in); }, c.infos);
  if (c.head < 0 || c.wrt.empty()) return forward;
  return differentiate(forward, c.outputs.size(), c.wrt);
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return std::memcmp(a.raw(), b.raw(), a.info().bytes()) == 0;
}

// Twice, since a run must leave nothing behind that the next one sees.
Tensors run_twice(Executable& executable, const Tensors& inputs) {
  const Tensors first = executable.run(inputs);
  release_unused_memory();
  const Tensors second = executable.run(inputs);
  for (std::size_t i = 0; i < first.size(); ++i)
    if (!same_bytes(first[i].contiguous(), second[i].contiguous()))
      throw InternalError(fmt::format("a second run gives output {} other bits", i));
  return first;
}

Tensors compiled_with(const Case& c, const Tensors& inputs, const CompileOptions& options) {
  release_unused_memory();
  Executable executable = Executable::compile(graph_of(c), options);
  return run_twice(executable, inputs);
}

Tensors compiled(const Case& c, const Tensors& inputs) { return compiled_with(c, inputs, {}); }

Tensors plain(const Case& c, const Tensors& inputs) {
  return compiled_with(c, inputs,
                       {.simplify = false,
                        .fuse = false,
                        .recompute = false,
                        .choose_layouts = false,
                        .winograd = false});
}

Tensors not_simplified(const Case& c, const Tensors& inputs) {
  return compiled_with(c, inputs, {.simplify = false});
}

Tensors not_fused(const Case& c, const Tensors& inputs) {
  return compiled_with(c, inputs, {.fuse = false});
}

Tensors not_recomputed(const Case& c, const Tensors& inputs) {
  return compiled_with(c, inputs, {.recompute = false});
}

Tensors plain_layouts(const Case& c, const Tensors& inputs) {
  return compiled_with(c, inputs, {.choose_layouts = false});
}

Tensors without_winograd(const Case& c, const Tensors& inputs) {
  return compiled_with(c, inputs, {.winograd = false});
}

bool is_float32(const Case& c) {
  for (std::size_t i : c.wrt)
    if (c.infos[i].dtype != DType::float32) return false;
  return !c.wrt.empty() && c.head >= 0;
}

Tensors in_bfloat16(const Case& c, const Tensors& inputs) {
  if (!is_float32(c)) return {};
  return compiled_with(c, inputs, {.compute = DType::bfloat16});
}

// Inputs that are differentiated live in the executable, as parameters do.
Tensors with_states(const Case& c, const Tensors& inputs, bool prologue) {
  if (c.wrt.empty() || c.head < 0) return {};
  release_unused_memory();
  CompileOptions options{.prologue = prologue};
  options.states = c.wrt;
  Executable executable = Executable::compile(graph_of(c), options);
  Tensors others;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (std::find(c.wrt.begin(), c.wrt.end(), i) == c.wrt.end()) others.push_back(inputs[i]);
  for (std::size_t i : c.wrt) executable.set_state(i, inputs[i]);
  return run_twice(executable, others);
}

Tensors states(const Case& c, const Tensors& inputs) { return with_states(c, inputs, true); }
Tensors no_prologue(const Case& c, const Tensors& inputs) { return with_states(c, inputs, false); }

// The case as a block: what is differentiated is a parameter, the rest is data.
class CaseBlock final : public nn::Block {
 public:
  CaseBlock(const Case& c, const Tensors& inputs) : case_(c), inputs_(inputs) {
    for (std::size_t i : c.wrt) {
      nn::ParameterOptions options;
      options.dtype = c.infos[i].dtype;
      parameters_.push_back(add_parameter("p" + std::to_string(i), c.infos[i].shape, options));
    }
  }

  void fill() {
    initialize();
    for (std::size_t i = 0; i < case_.wrt.size(); ++i)
      parameters_[i].set_data(inputs_[case_.wrt[i]]);
  }

  Tensors data() const {
    Tensors others;
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      if (!is_parameter(i)) others.push_back(inputs_[i]);
    return others;
  }

  // The head comes first: the engine takes the loss of the first output.
  Tensors forward_all(const Tensors& data) override {
    Tensors all;
    std::size_t next = 0, parameter = 0;
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      all.push_back(is_parameter(i) ? parameters_[parameter++].data() : data[next++]);
    Tensors results = case_(all);
    std::rotate(results.begin(), results.end() - 1, results.end());
    return results;
  }

 private:
  bool is_parameter(std::size_t i) const {
    return std::find(case_.wrt.begin(), case_.wrt.end(), i) != case_.wrt.end();
  }

  const Case& case_;
  const Tensors& inputs_;
  std::vector<nn::Parameter> parameters_;
};

// The outputs and the head in the usual order; no gradients.
Tensors hybridized(const Case& c, const Tensors& inputs) {
  if (c.wrt.empty() || c.head < 0 || c.wrt.size() == inputs.size()) return {};
  release_unused_memory();
  CaseBlock block(c, inputs);
  block.fill();
  block.hybridize();
  Tensors results = block(block.data());
  std::rotate(results.begin(), results.begin() + 1, results.end());
  return results;
}

bool has_gradients(const Case& c, const Tensors& inputs) {
  const Tensors leaves = leaves_of(c, inputs);
  const autograd::RecordScope record;
  return autograd::requires_grad(c(leaves).back());
}

// One step of plain gradient descent, rate 1: gradients are what the parameters lose. Outputs are
// not seen, and a step that is not finite updates nothing. A loss without gradients is refused.
Tensors step_engine(const Case& c, const Tensors& inputs) {
  if (!is_float32(c) || c.wrt.size() == inputs.size() || !has_gradients(c, inputs)) return {};
  release_unused_memory();
  auto block = std::make_shared<CaseBlock>(c, inputs);
  block->fill();
  const Tensors fields = block->data();
  const auto loss = [](const Tensors& outputs, const Tensors&) { return reshape(outputs[0], {1}); };
  train::EngineOptions options{.shards = 1};
  options.fields.assign(fields.size(), train::input());
  train::StepEngine engine(block, loss, optim::sgd({.momentum = 0.0}), data::infos_of(fields),
                           options);
  const train::StepResult result = engine.run(0, 1.0, {&fields, 1});
  if (!result.finite) return {};
  engine.store(*block);
  Tensors all(c.outputs.size());
  all.push_back(Tensor::scalar(static_cast<float>(result.loss)));
  for (std::size_t i = 0; i < c.wrt.size(); ++i)
    all.push_back(inputs[c.wrt[i]] - block->parameters()[i].parameter.data());
  return all;
}

// What second derivatives are taken of: the gradients, weighted by the inputs' own values.
Tensor weigh(const Tensors& gradients, const Tensors& weights) {
  Tensor total;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const Tensor part = sum(gradients[i] * weights[i]);
    total = total.defined() ? total + part : part;
  }
  return total;
}

Tensors second(const Case& c, const Tensors& inputs) {
  if (c.wrt.empty() || c.head < 0) return {};
  FreshMemory fresh;
  const InterceptScope scope(&fresh);
  const Tensors leaves = leaves_of(c, inputs);
  const Tensors variables = picked(leaves, c.wrt);
  const autograd::RecordScope record;
  const Tensors all = c(leaves);
  if (!autograd::requires_grad(all.back())) return Tensors(c.wrt.size());
  const Tensors gradients = autograd::grad({&all.back(), 1}, variables, {}, true);
  const Tensor total = weigh(gradients, picked(inputs, c.wrt));
  if (!autograd::requires_grad(total)) return Tensors(c.wrt.size());
  return autograd::grad({&total, 1}, variables);
}

// The weights are inputs of their own, so that nothing flows through them.
Tensors second_compiled(const Case& c, const Tensors& inputs) {
  if (c.wrt.empty() || c.head < 0) return {};
  release_unused_memory();
  const Graph first = graph_of(c);
  const auto function = [&](const Tensors& in) {
    const Tensors all = interpret(first, std::span(in).first(inputs.size()));
    const Tensors gradients(all.end() - static_cast<std::ptrdiff_t>(c.wrt.size()), all.end());
    return Tensors{weigh(
        gradients, Tensors(in.begin() + static_cast<std::ptrdiff_t>(inputs.size()), in.end()))};
  };
  Infos infos = c.infos;
  for (std::size_t i : c.wrt) infos.push_back(c.infos[i]);
  Executable executable = Executable::compile(differentiate(trace(function, infos), 0, c.wrt));
  Tensors results = run_twice(executable, joined(inputs, picked(inputs, c.wrt)));
  results.erase(results.begin());
  return results;
}

constexpr Way kWays[] = {
    {"eager", eager},
    {"tape", tape},
    {"reference", reference},
    {"compiled", compiled},
    {"plain", plain},
    {"not simplified", not_simplified},
    {"not fused", not_fused},
    {"not recomputed", not_recomputed},
    {"plain layouts", plain_layouts},
    {"without winograd", without_winograd},
    {"in bfloat16", in_bfloat16},
    {"states", states},
    {"no prologue", no_prologue},
    {"hybridized", hybridized},
    {"step engine", step_engine},
    {"second", second},
    {"second compiled", second_compiled},
};

}  // namespace

std::span<const Way> all_ways() { return kWays; }
const std::set<std::string>& seen_ops() { return seen(); }

}  // namespace lockstep::testing
