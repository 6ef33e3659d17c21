// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lockstep/train/step_graph.h"

namespace lockstep::train::detail {

// The parameter's name, with its slice's number where it is one: the same with every worker.
std::string slice_name(const StepGraph::Parameter& parameter);
// Of a tensor as large as the whole.
Tensor slice_of(const StepGraph::Parameter& parameter, const Tensor& whole);

// Tensors by slice become whole: "slot0/fc1.weight" of "slot0/fc1.weight#slice0" and its like. What
// is there several times counts once; others stay as they are. In the order of their first ones.
// Slices that are not all there stay away.
std::vector<std::pair<std::string, Tensor>> join_slices(
    const std::vector<StepGraph::Parameter>& parameters,
    const std::vector<std::pair<std::string, Tensor>>& tensors);

}  // namespace lockstep::train::detail
