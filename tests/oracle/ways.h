// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>

#include "tests/oracle/case.h"

namespace lockstep::testing {

// One way to run a case. What comes out: the outputs, the head, the gradients of the head with
// respect to `wrt` (undefined where there is none). An empty list: this way is not for the case.
struct Way {
  std::string_view name;
  Tensors (*run)(const Case& c, const Tensors& inputs);
};

// Eager, on the tape, compiled with each switch of CompileOptions, hybridized, by the step engine;
// and the "second" ones, which give the second derivatives alone.
std::span<const Way> all_ways();
// The ops that ran eagerly or on the tape so far, those of gradients included.
const std::set<std::string>& seen_ops();

}  // namespace lockstep::testing
