// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/kvstore/synchronizer.h"

namespace lockstep::kvstore {

// A worker's own nodes, first to last; zeros where it has none.
void add_nodes(std::span<const Synchronizer::Node> nodes, std::span<float> result);

}  // namespace lockstep::kvstore
