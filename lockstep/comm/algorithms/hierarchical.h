// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/comm/algorithms/call.h"

namespace lockstep::comm {

// `hosts` are the ranks of each host; `inside` connects those of this one, where there is better
// than the call's transport.
void hierarchical_reduce(const Call& call, const TreeCall& tree, std::span<const ShardRange> ranges,
                         const std::vector<std::vector<int>>& hosts, Transport* inside = nullptr);

}  // namespace lockstep::comm
