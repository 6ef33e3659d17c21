// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "lockstep/graph/executable.h"
#include "lockstep/ops/ops.h"
#include "tests/graph/graphs.h"
#include "tests/graph/machine.h"
#include "tests/graph/random_nets.h"
#include "tests/seed.h"

namespace lockstep::testing {
namespace {

constexpr double kTrainingTolerance = 5e-4;  // of the largest element
constexpr double kRate = 0.05;
constexpr int kTrainingSteps = 3;
constexpr std::size_t kFirst = RandomNet::kFirstParameter;

Infos infos_of(const Tensors& tensors) {
  Infos infos;
  for (const Tensor& tensor : tensors) infos.push_back(tensor.info());
  return infos;
}

// How a net's training step is put together. Inputs: data, labels, parameters, momenta, running
// statistics; outputs: the loss and the successors of all but the first two.
struct TrainingStep {
  Graph gradients;
  std::size_t parameters;
  bool one_op;  // the update as one op, or as arithmetic

  Tensors operator()(const Tensors& in) const {
    const Tensors out = interpret(gradients, std::span(in).first(kFirst + parameters));
    const std::size_t statistics = out.size() - 1 - parameters;
    Tensors weights, momenta, running;
    for (std::size_t i = 0; i < parameters; ++i) {
      const auto [weight, momentum] =
          update(in[kFirst + i], out[1 + statistics + i], in[kFirst + parameters + i]);
      weights.push_back(weight);
      momenta.push_back(momentum);
    }
    for (std::size_t i = 0; i < statistics; ++i)
      running.push_back(in[kFirst + 2 * parameters + i] * 0.9 + out[1 + i] * 0.1);
    Tensors all{out[0]};
    for (const Tensors* list : {&weights, &momenta, &running})
      all.insert(all.end(), list->begin(), list->end());
    return all;
  }

  std::pair<Tensor, Tensor> update(const Tensor& weight, const Tensor& gradient,
                                   const Tensor& momentum) const {
    if (one_op)
      return sgd_momentum_update(weight, gradient, momentum, Tensor::scalar(kRate), 0.9, 1e-3);
    const Tensor next = momentum * 0.9 - (gradient + weight * 1e-3) * kRate;
    return {weight + next, next};
  }
};

Machine machine_of(const RandomNet& net, bool one_op) {
  const TrainingStep step{net.with_gradients(), net.parameters.size(), one_op};
  Machine machine;
  machine.inputs = net.inputs();
  for (const Tensor& parameter : net.parameters)
    machine.inputs.push_back(Tensor::zeros(parameter.shape()));
  for (std::size_t i = 1; i + net.parameters.size() < step.gradients.outputs().size(); ++i)
    machine.inputs.push_back(Tensor::zeros(step.gradients.info(step.gradients.outputs()[i]).shape));
  machine.graph = trace(step, infos_of(machine.inputs));
  for (std::size_t i = kFirst; i < machine.inputs.size(); ++i) {
    machine.options.states.push_back(i);
    machine.options.carries.push_back({i, 1 + i - kFirst});
  }
  return machine;
}

// Everything that the interpreter gives in some steps.
Tensors trajectory(const Machine& machine, const Tensor& data) {
  Tensors now = machine.inputs, all;
  now[0] = data;
  for (int i = 0; i < kTrainingSteps + 1; ++i) {
    const Tensors returned = machine.step(now);
    all.insert(all.end(), returned.begin(), returned.end());
  }
  all.insert(all.end(), now.begin() + kFirst, now.end());
  return all;
}

bool are_near(const Tensors& a, const Tensors& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!(largest_of(a[i] - b[i]) <= kTrainingTolerance * std::max(1.0, largest_of(b[i]))))
      return false;
  return true;
}

// No activation or pool is decided by rounding: a move of the data that is a hundred times as large
// as rounding's decides none either.
bool is_settled(const Machine& machine, ProgramDrawer& source) {
  const Tensor& data = machine.inputs[0];
  const Tensor move = source.random(data.shape(), 1e-5);
  const Tensors still = trajectory(machine, data);
  return are_near(trajectory(machine, data + move), still) &&
         are_near(trajectory(machine, data - move), still);
}

class RandomTraining : public ::testing::TestWithParam<int> {
 protected:
  NetDrawer drawer_{seed_of_this_run() * 1000 + static_cast<std::uint64_t>(GetParam())};
};

TEST_P(RandomTraining, WithMomentumAsCarriesGoesOnAsInterpreted) {
  for (int i = 0; i < 6; ++i) {
    const Machine machine = machine_of(drawer_.draw(), drawer_.source().coin());
    if (!is_settled(machine, drawer_.source())) continue;
    expect_runs_as_interpreted(machine, {}, "compiled");
    expect_runs_as_interpreted(machine, {.recompute = false, .winograd = false}, "everything kept");
    expect_runs_as_interpreted(machine, {.fuse = false, .choose_layouts = false}, "plainly");
    if (HasFatalFailure()) return;
  }
}

// Gradients leave by deliveries, and the receiver updates the state at once.
struct Delivering {
  const RandomNet& net;
  Graph graph = net.with_gradients();
  std::size_t others = graph.outputs().size() - net.parameters.size();  // loss and statistics

  Executable compile() const {
    CompileOptions options;
    for (std::size_t i = 0; i < net.parameters.size(); ++i) {
      options.states.push_back(kFirst + i);
      options.deliveries.push_back({others + i, kFirst + i});
    }
    Executable executable = Executable::compile(graph, options);
    for (std::size_t i = 0; i < net.parameters.size(); ++i)
      executable.set_state(kFirst + i, net.parameters[i]);
    return executable;
  }

  // The returned outputs, then the gradients by parameter.
  Tensors run(Executable& executable, bool update) const {
    Tensors all;
    for (const TensorInfo& info : executable.output_infos())
      all.push_back(Tensor::empty(info.shape));
    const Tensors outputs = all;
    all.resize(others + net.parameters.size());
    const Tensors fed{net.data, net.labels};
    executable.run_into(fed, outputs, [&](std::size_t index, std::span<const std::byte> bytes) {
      const std::size_t state = kFirst + index;
      EXPECT_FALSE(all[others + index].defined()) << "delivered twice";
      all[others + index] = executable.unpack(state, bytes);
      const Tensor next = executable.state(state) - all[others + index] * kRate;
      if (update) executable.pack(state, next, executable.state_memory(state));
    });
    if (update) executable.refresh();
    return all;
  }
};

void check_deliveries(const RandomNet& net) {
  const Delivering delivering{net};
  SCOPED_TRACE(delivering.graph.str());
  Executable executable = delivering.compile();
  Executable clone = executable.clone();
  Tensors now = net.inputs();
  for (int step = 0; step < kTrainingSteps; ++step) {
    SCOPED_TRACE(fmt::format("step {}", step));
    const Tensors expected = interpret(delivering.graph, now);
    const Tensors shared = delivering.run(clone, false);
    const Tensors got = delivering.run(executable, true);
    expect_all_close(got, expected, kTrainingTolerance, "outputs and gradients");
    expect_same_bits(shared, got, "a clone's");
    if (::testing::Test::HasFatalFailure()) return;
    for (std::size_t i = 0; i < net.parameters.size(); ++i)
      now[kFirst + i] = now[kFirst + i] - expected[delivering.others + i] * kRate;
  }
}

TEST_P(RandomTraining, ByDeliveriesGoesOnAsInterpreted) {
  for (int i = 0; i < 6; ++i) {
    const RandomNet net = drawer_.draw();
    if (!is_settled(machine_of(net, false), drawer_.source())) continue;
    check_deliveries(net);
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomTraining, ::testing::Range(0, 8));

}  // namespace
}  // namespace lockstep::testing
