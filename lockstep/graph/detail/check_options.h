// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/graph/executable.h"

namespace lockstep::detail {

// Throws InvalidArgument when a graph has not what the options speak of.
void check_options(const Graph& graph, const CompileOptions& options);

}  // namespace lockstep::detail
