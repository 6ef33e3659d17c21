// SPDX-License-Identifier: Apache-2.0
#include "lockstep/graph/executable.h"
#include "lockstep/ops/ops.h"
#include "tests/graph/graphs.h"
#include "tests/graph/random_graphs.h"
#include "tests/seed.h"

namespace lockstep::testing {
namespace {

constexpr double kTolerance = 5e-4;  // of the largest element, after several runs

// A graph and which of its inputs go on from run to run.
struct Machine {
  Graph graph;
  Tensors inputs;  // states: what they are at first
  CompileOptions options;

  bool is_state(std::size_t input) const {
    return std::count(options.states.begin(), options.states.end(), input) > 0;
  }
  Tensors fed() const {
    Tensors fed;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (!is_state(i)) fed.push_back(inputs[i]);
    return fed;
  }
  Executable compile(const CompileOptions& with) const {
    CompileOptions all = with;
    all.states = options.states;
    all.carries = options.carries;
    return Executable::compile(graph, all);
  }
  // What Executable::run does, by the interpreter, on inputs that it changes.
  Tensors step(Tensors& now) const {
    const Tensors all = interpret(graph, now);
    Tensors returned;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (std::none_of(options.carries.begin(), options.carries.end(),
                       [&](const Carry& carry) { return carry.output == i; }))
        returned.push_back(all[i].copy());
    for (const Carry& carry : options.carries) now[carry.input] = all[carry.output].copy();
    return returned;
  }
};

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
    expect_all_close(got, expected, kTolerance, "returned");
    expect_all_close(states_of(executable, machine), now, kTolerance, "state");
    if (run >= 2) expect_same_bits(fresh.run(machine.fed()), got, "a fresh executable's output");
    if (::testing::Test::HasFatalFailure()) return;
  }
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

void check_machine(const Machine& machine) {
  expect_runs_as_interpreted(machine, {}, "compiled");
  expect_runs_as_interpreted(machine, {.fuse = false, .choose_layouts = false}, "plainly");
}

// The last element of axis 0 comes first.
Tensor rotated(const Tensor& x) {
  if (x.rank() == 0) return x;
  return concat({slice(x, {-1}, {INT64_MAX}), slice(x, {0}, {-1})});
}

// What a state becomes; `other` is anything that broadcasts to it.
Tensor updated(std::int64_t rule, const Tensor& state, const Tensor& other) {
  const Tensor bounded = tanh(mean(other));
  switch (state.rank() == 0 ? rule % 3 : rule) {
    case 0: return state * 0.5 + bounded;
    case 1: return maximum(state, 0.25);
    case 2: return state;
    case 3: return state * 0.5 + flip(state, {0}) * 0.4;
    case 4: return state * 0.5 + slice(state, {0}, {1}) * 0.5;
    case 5: return rotated(state);
    case 6: return flip(state, {-1});
    case 7: return state - mean(state, {0}) + bounded;
    default: return concat({slice(state, {1}, {INT64_MAX}), slice(state, {0}, {1}) * bounded});
  }
}

// States are some of a random program's inputs, outputs come in any order.
class MachineDrawer {
 public:
  explicit MachineDrawer(std::uint64_t seed) : drawer_(seed) {}

  Machine draw() {
    const RandomProgram program = drawer_.draw(6, true);
    Machine machine;
    machine.inputs = program.inputs;
    for (std::size_t i = 0; i < program.inputs.size(); ++i)
      if (drawer_.coin()) add_twins(machine, i);
    std::vector<std::size_t> ids;
    for (std::size_t i = 0; i < 2; ++i)
      ids.push_back(static_cast<std::size_t>(drawer_.below(1000)));
    std::vector<std::int64_t> rules;
    for (std::size_t i = 0; i < machine.options.states.size(); ++i)
      rules.push_back(drawer_.below(10));
    const std::int64_t order = drawer_.below(3);
    Infos infos;
    for (const Tensor& input : machine.inputs) infos.push_back(input.info());
    machine.graph = trace(
        [&](const Tensors& in) { return outputs(machine, program, in, ids, rules, order); }, infos);
    return machine;
  }

 private:
  // Two states of one shape can change places.
  void add_twins(Machine& machine, std::size_t input) {
    machine.options.states.push_back(input);
    if (drawer_.coin()) return;
    machine.options.states.push_back(machine.inputs.size());
    machine.inputs.push_back(drawer_.random(machine.inputs[input].shape()));
  }

  static Tensors next_states(const Machine& machine, const Tensors& in, const Tensor& other,
                             const std::vector<std::int64_t>& rules) {
    Tensors next;
    const std::vector<std::size_t>& states = machine.options.states;
    for (std::size_t i = 0; i < states.size(); ++i)
      next.push_back(updated(rules[i], in[states[i]], other));
    for (std::size_t i = 0; i + 1 < states.size(); ++i)
      if (rules[i] == 9 && next[i].shape() == next[i + 1].shape()) {
        next[i] = in[states[i + 1]];
        next[i + 1] = in[states[i]];
      }
    return next;
  }

  static Tensors outputs(Machine& machine, const RandomProgram& program, const Tensors& in,
                         const std::vector<std::size_t>& ids,
                         const std::vector<std::int64_t>& rules, std::int64_t order) {
    const Tensors values = program.values(in);
    const Tensors next = next_states(machine, in, values.back(), rules);
    Tensors before{values.back()};
    Tensors after;
    for (std::size_t id : ids) after.push_back(values[id % values.size()]);
    if (!next.empty()) {
      const std::size_t place = ids[0] % next.size();
      after.push_back(in[machine.options.states[place]]);             // a state, overwritten by now
      after.push_back(transpose(in[machine.options.states[place]]));  // and a window on it
      after.push_back(next[place]);                                   // and its successor
    }
    if (order == 1) std::swap(before, after);
    machine.options.carries.clear();
    for (std::size_t i = 0; i < next.size(); ++i) {
      const std::size_t last = next.size() - 1;
      const std::size_t which = order == 2 ? last - i : i;
      machine.options.carries.push_back({machine.options.states[which], before.size()});
      before.push_back(next[which]);
    }
    before.insert(before.end(), after.begin(), after.end());
    return before;
  }

  ProgramDrawer drawer_;
};

class RandomStates : public ::testing::TestWithParam<int> {
 protected:
  std::uint64_t seed_ = seed_of_this_run() * 1000 + static_cast<std::uint64_t>(GetParam());
};

TEST_P(RandomStates, GoOnFromRunToRunAsInterpreted) {
  MachineDrawer drawer(seed_);
  for (int i = 0; i < 20; ++i) {
    check_machine(drawer.draw());
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomStates, ::testing::Range(0, 10));

}  // namespace
}  // namespace lockstep::testing
