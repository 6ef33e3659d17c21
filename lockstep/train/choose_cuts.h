// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/train/step_graph.h"

namespace lockstep::train {

// Cuts of a net into so many segments whose work, in floating-point operations, is as even as the
// net allows: between blocks where as few values as possible cross. Throws InvalidArgument where
// the net has not as many blocks one after the other.
std::vector<std::string> choose_cuts(nn::Block& net, const LossFunction& loss,
                                     const std::vector<TensorInfo>& fields, const FieldRoles& roles,
                                     std::int64_t segments);

// The same of a step that was traced without cuts; and the part of the forward pass's work that
// each segment then has.
struct ChosenCuts {
  std::vector<std::string> cuts;
  std::vector<double> shares;
};
ChosenCuts choose_cuts(const nn::Block& net, const StepGraph& step, std::int64_t segments);

}  // namespace lockstep::train
