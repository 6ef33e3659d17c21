// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lockstep/nn/block.h"

namespace lockstep::nn {

// Contents by name. Throws InvalidArgument that begins with `place` and has a table of what fits,
// what is missing, what the block has not and shapes that differ; then nothing is changed.
LoadReport set_parameters(const Block& block,
                          const std::vector<std::pair<std::string, Tensor>>& tensors,
                          const std::string& place, const LoadOptions& options = {});

}  // namespace lockstep::nn
