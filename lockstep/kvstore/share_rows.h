// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/kvstore/flat_state.h"
#include "lockstep/kvstore/group.h"
#include "lockstep/kvstore/row_sums.h"

namespace lockstep::kvstore {

// Every worker gives the rows that its shards have gradients of, table by table. Their sums over
// all shards, in the canonical order, are the gradients of the state's tables on every worker.
void share_rows(Group& group, std::int64_t shards, const std::vector<std::vector<RowNode>>& tables,
                FlatState& state);

}  // namespace lockstep::kvstore
