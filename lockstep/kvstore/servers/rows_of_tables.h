// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/kvstore/flat_layout.h"
#include "lockstep/kvstore/row_sums.h"
#include "lockstep/kvstore/servers/placement.h"

// Rows of several tables in one part of a message.
namespace lockstep::kvstore {

// Of each table in turn. Throws Corrupt where the bytes end too early, or there are more of them,
// or an id is none of the table's.
std::vector<RowSums> rows_in(const std::string& bytes, const std::vector<RowTable>& tables);

// What a server has of the rows of all tables, as it counts them: bytes for rows_in().
std::string bytes_for(const TableRange& range, const std::vector<const RowSums*>& tables);
// Such rows, counted as those of the whole tables, after what is there of servers before it.
void append_from(const TableRange& range, const std::vector<RowSums>& of_server,
                 std::vector<RowSums>& tables);

}  // namespace lockstep::kvstore
