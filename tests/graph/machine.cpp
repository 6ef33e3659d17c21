// SPDX-License-Identifier: Apache-2.0
#include "tests/graph/machine.h"

#include <algorithm>

#include "tests/graph/graphs.h"

namespace lockstep::testing {
namespace {

constexpr double kMachineTolerance = 5e-4;  // of the largest element, after several runs

void set_states(Executable& executable, const Machine& machine, const Tensors& values) {
  for (std::size_t input : machine.options.states) executable.set_state(input, values[input]);
}

Tensors states_of(const Executable& executable, const Machine& machine) {
  Tensors values = machine.inputs;
  for (std::size_t input : machine.options.states) values[input] = executable.state(input).copy();
  return values;
}

// Four runs; before the third, another executable takes over the states.
void check_runs(const Machine& machine, const CompileOptions& options) {
  Executable executable = machine.compile(options);
  Executable fresh = machine.compile(options);
  set_states(executable, machine, machine.inputs);
  Tensors now = machine.inputs;
  for (int run = 0; run < 4; ++run) {
    SCOPED_TRACE(fmt::format("run {}", run));
    if (run == 2) set_states(fresh, machine, states_of(executable, machine));
    const Tensors expected = machine.step(now);
    const Tensors got = executable.run(machine.fed());
    expect_all_close(got, expected, kMachineTolerance, "returned");
    expect_all_close(states_of(executable, machine), now, kMachineTolerance, "state");
    if (run >= 2) expect_same_bits(fresh.run(machine.fed()), got, "a fresh executable's output");
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace

bool Machine::is_state(std::size_t input) const {
  return std::count(options.states.begin(), options.states.end(), input) > 0;
}

Tensors Machine::fed() const {
  Tensors fed;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (!is_state(i)) fed.push_back(inputs[i]);
  return fed;
}

Executable Machine::compile(CompileOptions with) const {
  with.states = options.states;
  with.carries = options.carries;
  return Executable::compile(graph, with);
}

Tensors Machine::step(Tensors& now) const {
  const Tensors all = interpret(graph, now);
  Tensors returned;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (std::none_of(options.carries.begin(), options.carries.end(),
                     [&](const Carry& carry) { return carry.output == i; }))
      returned.push_back(all[i].copy());
  for (const Carry& carry : options.carries) now[carry.input] = all[carry.output].copy();
  return returned;
}

void expect_runs_as_interpreted(const Machine& machine, const CompileOptions& options,
                                const std::string& what) {
  std::string text = what + "\n" + machine.graph.str();
  for (const Carry& carry : machine.options.carries)
    text += fmt::format("input {} = output {}\n", carry.input, carry.output);
  SCOPED_TRACE(text);
  try {
    check_runs(machine, options);
  } catch (const std::exception& error) {
    FAIL() << error.what();
  }
}

}  // namespace lockstep::testing
