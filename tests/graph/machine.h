// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/graph/executable.h"

namespace lockstep::testing {

using Tensors = std::vector<Tensor>;

// A graph and which of its inputs go on from run to run.
struct Machine {
  Graph graph;
  Tensors inputs;  // states: what they are at first
  CompileOptions options;

  bool is_state(std::size_t input) const;
  // The inputs that are not states.
  Tensors fed() const;
  // With the states and carries of this machine.
  Executable compile(CompileOptions with) const;
  // What Executable::run does, by the interpreter, on inputs that it changes.
  Tensors step(Tensors& now) const;
};

// Several runs give what the interpreter gives, op by op; on the way another executable takes over
// the states and gives the same bits.
void expect_runs_as_interpreted(const Machine& machine, const CompileOptions& options,
                                const std::string& what);

}  // namespace lockstep::testing
