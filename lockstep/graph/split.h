// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/graph/graph.h"

namespace lockstep {

// A graph in two, to be run one after the other.
struct TwoParts {
  // Of the first inputs: the first outputs, then what the second part reads of it.
  Graph first;
  // Of the first inputs, the values of `kept`, and the other inputs: the other outputs.
  Graph second;
  // Which outputs of the first part are inputs of the second.
  std::vector<std::size_t> kept;
};

// Cuts `graph` behind its first `outputs` outputs, which depend on its first `inputs` inputs alone.
TwoParts split(const Graph& graph, std::size_t inputs, std::size_t outputs);

}  // namespace lockstep
