// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/servers/rows_of_tables.h"

#include <algorithm>

#include "lockstep/base/error.h"

namespace lockstep::kvstore {

std::vector<RowSums> rows_in(const std::string& bytes, const std::vector<RowTable>& tables) {
  std::string_view left = bytes;
  std::vector<RowSums> result;
  for (const RowTable& table : tables) result.push_back(take_rows(left, table.width, table.rows));
  if (!left.empty()) throw Corrupt("message: {} bytes too many behind rows", left.size());
  return result;
}

std::string bytes_for(const TableRange& range, const std::vector<const RowSums*>& tables) {
  std::string bytes;
  for (std::size_t i = 0; i < range.rows.size(); ++i) {
    const RowSums& all = *tables[range.rows[i].table];
    const auto first = static_cast<std::int64_t>(range.rows[i].first);
    const std::size_t width = range.layout.tables[i].width;
    const auto end = first + static_cast<std::int64_t>(range.layout.tables[i].rows);
    const auto from = std::lower_bound(all.ids.begin(), all.ids.end(), first);
    const auto to = std::lower_bound(from, all.ids.end(), end);
    RowSums own{.ids = {from, to}};
    for (std::int64_t& id : own.ids) id -= first;
    const auto row = all.rows.begin() + (from - all.ids.begin()) * static_cast<std::int64_t>(width);
    own.rows.assign(row, row + (to - from) * static_cast<std::int64_t>(width));
    append_bytes(own, bytes);
  }
  return bytes;
}

void append_from(const TableRange& range, const std::vector<RowSums>& of_server,
                 std::vector<RowSums>& tables) {
  for (std::size_t i = 0; i < range.rows.size(); ++i) {
    RowSums& to = tables[range.rows[i].table];
    for (const std::int64_t id : of_server[i].ids)
      to.ids.push_back(id + static_cast<std::int64_t>(range.rows[i].first));
    to.rows.insert(to.rows.end(), of_server[i].rows.begin(), of_server[i].rows.end());
  }
}

}  // namespace lockstep::kvstore
