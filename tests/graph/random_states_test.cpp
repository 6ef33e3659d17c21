// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "lockstep/ops/ops.h"
#include "tests/graph/machine.h"
#include "tests/graph/random_graphs.h"
#include "tests/seed.h"

namespace lockstep::testing {
namespace {

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
