// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/nn/block.h"

namespace lockstep::nn {

// A block that runs `net` and gives what inner blocks gave, in the order of their paths:
// feature_extractor(net, {"layer3", "fc"}). Called with a tensor it gives the first. One with
// several outputs gives them all. Its parameters are the net's own, as "net.fc.weight". Throws
// NotFound for a path that the net has not; a call throws InvalidArgument when a block was not
// called, or more than once.
BlockPtr feature_extractor(BlockPtr net, std::vector<std::string> paths);

}  // namespace lockstep::nn
