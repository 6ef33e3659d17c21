// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/graph/graph.h"

namespace lockstep {

// A graph that computes what `graph` does and, as further outputs, the gradient of its output
// number `head` (summed, when it is not a scalar) with respect to the inputs in `wrt`. An input
// that the head does not depend on has a gradient of zeros.
Graph differentiate(const Graph& graph, std::size_t head, const std::vector<std::size_t>& wrt);

// The same of several heads, whose own gradients are further inputs, one for each head.
Graph differentiate(const Graph& graph, const std::vector<std::size_t>& heads,
                    const std::vector<std::size_t>& wrt);

}  // namespace lockstep
