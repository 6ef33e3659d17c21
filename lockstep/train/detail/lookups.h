// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/graph/graph.h"

namespace lockstep::train::detail {

// A use of a table by embedding(): the ids, and the gradients of the rows that they gave.
struct Lookup {
  ValueId ids, rows;
};

// The lookups whose gradients make up the gradient of the table `input`, in the order in which the
// gradient adds them: from forward's last one to its first. Throws InvalidArgument when anything
// but embedding() reads the table.
std::vector<Lookup> find_lookups(const Graph& graph, const std::string& name, ValueId input,
                                 ValueId gradient);

}  // namespace lockstep::train::detail
