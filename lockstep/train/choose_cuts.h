// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>

#include "lockstep/train/step_graph.h"

namespace lockstep::train {

// Paths of a net's blocks: "blocks.2.mlp".
std::map<const nn::Block*, std::string> block_names(const nn::Block& net);

// What segments have about the same of: floating-point operations of the forward pass; or memory,
// that of the parameters with what training keeps for them, and of what the forward pass makes.
enum class Balance { work, memory };

// Cuts of a net into so many segments that are as even as the net allows: between blocks where as
// few values as possible cross. Throws InvalidArgument where the net has not as many blocks one
// after the other.
std::vector<std::string> choose_cuts(nn::Block& net, const LossFunction& loss,
                                     const std::vector<TensorInfo>& fields, const FieldRoles& roles,
                                     std::int64_t segments, Balance balance = Balance::work);

// The same of a step that was traced without cuts; and the part of the work, or the memory, that
// each segment then has.
struct ChosenCuts {
  std::vector<std::string> cuts;
  std::vector<double> shares;
};
ChosenCuts choose_cuts(const nn::Block& net, const StepGraph& step, std::int64_t segments,
                       Balance balance = Balance::work);

}  // namespace lockstep::train
