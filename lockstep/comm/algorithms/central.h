// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/comm/algorithms/call.h"

namespace lockstep::comm {

void central_reduce(const Call& call, const TreeCall& tree, std::span<const ShardRange> ranges);

}  // namespace lockstep::comm
