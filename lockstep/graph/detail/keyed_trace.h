// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/graph/trace.h"

namespace lockstep::detail {

// A function's graph with one more input, the last: the key that its random draws take, so that
// each call draws anew.
Graph trace_with_key(const TensorFunction& function, const Infos& infos);
// Whether such a graph reads its key.
bool draws_numbers(const Graph& graph);
// A key of its own for everything that a compiled function draws in one call: a function of the
// scope's key and of the call's place among the scope's draws.
Tensor key_for_call();

}  // namespace lockstep::detail
