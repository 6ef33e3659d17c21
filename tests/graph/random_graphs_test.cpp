// SPDX-License-Identifier: Apache-2.0
#include "tests/graph/random_graphs.h"

#include "lockstep/autograd/autograd.h"
#include "lockstep/graph/differentiate.h"
#include "lockstep/graph/executable.h"
#include "lockstep/ops/ops.h"
#include "tests/graph/graphs.h"
#include "tests/seed.h"

namespace lockstep::testing {
namespace {

constexpr double kGraphTolerance = 2e-4;  // of the largest element
const CompileOptions kPlain{.simplify = false,
                            .fuse = false,
                            .recompute = false,
                            .choose_layouts = false,
                            .winograd = false};

void check_compiled(const Graph& graph, const Tensors& inputs, const Tensors& expected) {
  Executable executable = Executable::compile(graph);
  const Tensors first = executable.run(inputs);
  expect_all_close(first, expected, kGraphTolerance, "compiled");
  expect_same_bits(executable.run(inputs), first, "second run");
  expect_all_close(Executable::compile(graph, kPlain).run(inputs), expected, kGraphTolerance,
                   "compiled plainly");
  expect_all_close(Executable::compile(graph, {.fuse = false}).run(inputs), expected,
                   kGraphTolerance, "not fused");
}

void expect_compiled_gives(const Graph& graph, const Tensors& inputs, const Tensors& expected) {
  SCOPED_TRACE(graph.str());
  try {
    check_compiled(graph, inputs, expected);
  } catch (const std::exception& error) {
    FAIL() << error.what();
  }
}

// Late values mostly, but any value may be asked for, and one of them twice: inputs, constants and
// windows too.
std::vector<std::size_t> draw_outputs(ProgramDrawer& drawer, std::size_t values) {
  std::vector<std::size_t> outputs;
  for (std::int64_t i = 1 + drawer.below(3); i > 0; --i)
    outputs.push_back(values - 1 - drawer.index_below(std::min<std::size_t>(values, 4)));
  if (drawer.coin()) outputs.push_back(drawer.index_below(values));
  if (drawer.coin()) outputs.push_back(outputs[0]);
  return outputs;
}

Tensors pick_values(const Tensors& values, const std::vector<std::size_t>& which) {
  Tensors picked;
  for (std::size_t id : which) picked.push_back(values[id]);
  return picked;
}

class RandomGraphs : public ::testing::TestWithParam<int> {
 protected:
  ProgramDrawer drawer_{seed_of_this_run() * 1000 + static_cast<std::uint64_t>(GetParam())};
};

TEST_P(RandomGraphs, ComputeTheSameCompiledPlainAndInterpreted) {
  for (int i = 0; i < 40; ++i) {
    const RandomProgram program = drawer_.draw(12, false);
    const std::size_t count = program.values(program.inputs).size();
    const std::vector<std::size_t> outputs = draw_outputs(drawer_, count);
    const TensorFunction function = [&](const Tensors& in) {
      return pick_values(program.values(in), outputs);
    };
    const Graph graph = trace(function, program.input_infos());
    expect_compiled_gives(graph, program.inputs, interpret(graph, program.inputs));
    if (HasFatalFailure()) return;
  }
}

// A weighted mean of the last values, then some of the values themselves.
struct Loss {
  const RandomProgram& program;
  std::vector<std::size_t> outputs;
  Tensors weights;

  Tensors operator()(const Tensors& in) const {
    const Tensors picked = pick_values(program.values(in), outputs);
    Tensor head = mean(in[0]);
    for (std::size_t i = 0; i < picked.size(); ++i) head = head + mean(picked[i] * weights[i]);
    Tensors all{head};
    all.insert(all.end(), picked.begin(), picked.end());
    return all;
  }
};

Tensors on_the_tape(const TensorFunction& function, const Tensors& inputs) {
  Tensors leaves;
  for (const Tensor& input : inputs) {
    leaves.push_back(input.detach());
    autograd::attach_grad(leaves.back());
  }
  Tensors all;
  {
    const autograd::RecordScope record;
    all = function(leaves);
  }
  const Tensors gradients = autograd::grad({all.data(), 1}, leaves);
  all.insert(all.end(), gradients.begin(), gradients.end());
  return all;
}

TEST_P(RandomGraphs, HaveTheGradientsThatTheTapeGives) {
  for (int i = 0; i < 20; ++i) {
    const RandomProgram program = drawer_.draw(10, false);
    const Tensors values = program.values(program.inputs);
    Loss loss{program, draw_outputs(drawer_, values.size()), {}};
    for (std::size_t id : loss.outputs) loss.weights.push_back(drawer_.random(values[id].shape()));
    std::vector<std::size_t> wrt;
    for (std::size_t k = 0; k < program.inputs.size(); ++k) wrt.push_back(k);
    const Graph graph = differentiate(trace(loss, program.input_infos()), 0, wrt);
    const Tensors expected = on_the_tape(loss, program.inputs);
    expect_compiled_gives(graph, program.inputs, expected);
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomGraphs, ::testing::Range(0, 10));

}  // namespace
}  // namespace lockstep::testing
