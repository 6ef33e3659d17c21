// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/graph/graph.h"

namespace lockstep::train {

// How many times as fast as in float32 a graph's matrix products and convolutions are in bfloat16
// on one thread of this processor: its largest ones, timed for about `seconds` in all. 1 for a
// graph without any.
double bfloat16_speedup(const Graph& graph, double seconds = 0.05);

}  // namespace lockstep::train
