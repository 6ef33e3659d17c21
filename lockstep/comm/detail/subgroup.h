// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/comm/bootstrap.h"
#include "lockstep/comm/transport.h"

namespace lockstep::comm::detail {

// What connects some of a transport's ranks anew, as `whole` connected all of them. Until the
// deadline these ranks tell each other what they need by exchanges of the transport; `check` throws
// when the transport's group is broken or aborted.
Bootstrap subgroup_bootstrap(Transport& transport, const Bootstrap& whole,
                             const std::vector<int>& ranks, Deadline deadline,
                             std::function<void()> check);

}  // namespace lockstep::comm::detail
