// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/compiled_step.h"

#include <numeric>

#include "lockstep/graph/differentiate.h"
#include "lockstep/graph/flops.h"
#include "lockstep/graph/trace.h"
#include "lockstep/ops/random_ops.h"
#include "lockstep/ops/update.h"

namespace lockstep {
namespace {

constexpr std::size_t kDataInputs = 2;  // data and labels come before the parameters

// Turns each parameter that a model asks for into an input of the graph.
class TracingSource final : public ParameterSource {
 public:
  TracingSource(Tracer& tracer, TracedRecipe& traced) : tracer_(tracer), traced_(traced) {}
  Tensor get(const std::string& name, const Shape& shape, const Init& init) override {
    traced_.names.push_back(name);
    traced_.inits.push_back(init);
    return tracer_.input({shape, DType::float32, {}}, name);
  }

 private:
  Tracer& tracer_;
  TracedRecipe& traced_;
};

Shape with_batch(const Shape& sample, std::int64_t batch) {
  Shape shape = sample;
  shape.insert(0, batch);
  return shape;
}

// Appends the update of every parameter to a graph whose outputs are the loss and the gradients.
// Inputs gain the learning rate and one momentum buffer for each parameter.
Graph add_updates(const Graph& gradients, std::size_t parameters, double momentum) {
  Graph graph = gradients;
  Tracer tracer(graph);
  const Tensor rate = tracer.input({{}, DType::float32, {}}, "learning_rate");
  std::vector<ValueId> outputs{gradients.outputs()[0]};
  const InterceptScope scope(&tracer);
  for (std::size_t i = 0; i < parameters; ++i) {
    const ValueId weight = gradients.inputs()[kDataInputs + i];
    const Tensor buffer =
        tracer.input(gradients.info(weight), "momentum:" + gradients.node(weight).name);
    const auto [w, m] = sgd_momentum_update(
        tracer.tensor(weight), tracer.tensor(gradients.outputs()[1 + i]), buffer, rate, momentum);
    outputs.push_back(tracer.value(w));
    outputs.push_back(tracer.value(m));
  }
  graph.set_outputs(outputs);
  return graph;
}

}  // namespace

TracedRecipe trace_recipe(const Recipe& recipe, std::int64_t batch) {
  TracedRecipe traced;
  Tracer tracer(traced.graph);
  const Tensor data =
      tracer.input({with_batch(recipe.sample_shape, batch), recipe.input_dtype, {}}, "data");
  const Tensor labels =
      tracer.input({with_batch(recipe.label_shape, batch), DType::int64, {}}, "label");
  TracingSource source(tracer, traced);
  const InterceptScope scope(&tracer);
  const Tensor loss = recipe_loss(recipe, recipe.forward(source, data), labels);
  traced.graph.add_output(tracer.value(loss), "loss");
  return traced;
}

Tensor initial_value(const Init& init, const Shape& shape, std::uint64_t seed, std::size_t place) {
  if (init.bound == 0.0) return Tensor::full(shape, init.value);
  const RandomScope scope(random_key(seed, static_cast<std::uint32_t>(place)));
  return uniform(shape, -init.bound, init.bound);
}

CompiledStep::CompiledStep(const Recipe& recipe, const StepOptions& options)
    : recipe_(recipe), batch_(options.batch > 0 ? options.batch : recipe.batch) {
  TracedRecipe traced = trace_recipe(recipe, batch_);
  names_ = traced.names;
  std::vector<std::size_t> wrt(names_.size());
  std::iota(wrt.begin(), wrt.end(), kDataInputs);
  const Graph gradients = differentiate(traced.graph, 0, wrt);
  const Graph graph = add_updates(gradients, names_.size(), options.momentum);
  flops_per_sample_ = count_flops(graph) / static_cast<double>(batch_);
  CompileOptions compile = options.compile;
  const std::size_t first_momentum = kDataInputs + names_.size() + 1;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    compile.states.push_back(kDataInputs + i);
    compile.states.push_back(first_momentum + i);
    compile.carries.push_back({kDataInputs + i, 1 + 2 * i});
    compile.carries.push_back({first_momentum + i, 2 + 2 * i});
  }
  executable_ = std::make_unique<Executable>(Executable::compile(graph, compile));
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const TensorInfo& info = graph.info(graph.inputs()[kDataInputs + i]);
    parameter_bytes_ += info.bytes();
    set_parameter(i, initial_value(traced.inits[i], info.shape, options.seed, i));
  }
  rate_ = Tensor::scalar(options.learning_rate);
  loss_ = Tensor::zeros({});
}

void CompiledStep::run_blind(const Tensor& data, const Tensor& labels) {
  const Tensor inputs[] = {data, labels, rate_};
  executable_->run_into(inputs, {&loss_, 1});
}

std::vector<Executable::StepTime> CompiledStep::profile(const Tensor& data, const Tensor& labels) {
  const Tensor inputs[] = {data, labels, rate_};
  return executable_->profile(inputs);
}

double CompiledStep::run(const Tensor& data, const Tensor& labels) {
  run_blind(data, labels);
  return loss_.item();
}

void CompiledStep::set_parameter(std::size_t index, const Tensor& value) {
  executable_->set_state(kDataInputs + index, value);
}

Tensor CompiledStep::parameter(std::size_t index) const {
  return executable_->state(kDataInputs + index);
}

Tensor CompiledStep::random_data(std::uint64_t seed) const {
  const RandomScope scope(random_key(seed));
  const Shape shape = with_batch(recipe_.sample_shape, batch_);
  return recipe_.input_range > 0 ? randint(0, recipe_.input_range, shape) : uniform(shape);
}

Tensor CompiledStep::random_labels(std::uint64_t seed) const {
  const RandomScope scope(random_key(seed, 1));
  return randint(0, recipe_.classes, with_batch(recipe_.label_shape, batch_));
}

std::size_t CompiledStep::step_bytes() const {
  return executable_->arena_bytes() + executable_->state_bytes() - parameter_bytes_;
}

}  // namespace lockstep
