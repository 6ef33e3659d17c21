// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/graph/graph.h"

namespace lockstep {

// Floating-point operations of the matrix products, convolutions, attention and recurrent layers in
// a graph (a multiply-add is two). Causal attention counts the half that it needs.
double count_flops(const Graph& graph);
// Of one node of it.
double count_flops(const Graph& graph, const Node& node);

}  // namespace lockstep
