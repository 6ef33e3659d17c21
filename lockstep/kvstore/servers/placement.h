// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/kvstore/flat_layout.h"

namespace lockstep::kvstore {

// What one server has of a layout: whole pieces, one after the other.
struct TableRange {
  std::size_t first_piece = 0;
  std::size_t first_parameter = 0;  // the first that has pieces here, perhaps not all of them
  std::size_t offset = 0;           // its own floats begin here
  FlatLayout layout = {};           // the parts of parameters that are here, as parameters
  // Of each of its tables, which one of the whole layout it is, and from which row on.
  struct Rows {
    std::size_t table = 0, first = 0;
  };
  std::vector<Rows> rows = {};

  bool is_empty() const { return layout.floats == 0 && layout.tables.empty(); }
};

// Contiguous ranges of about the same number of floats, in the order of the servers; some are empty
// where there are fewer pieces than servers. Tables that learn by rows are cut into ranges of rows
// where that changes nothing of what the rule makes of them (`by_rows`: it is local), and are dealt
// whole otherwise.
std::vector<TableRange> split_layout(const FlatLayout& layout, int servers, bool by_rows = true);

// Some rows of a value, on a server.
struct KeyRange {
  int server = 0;
  std::size_t row = 0, rows = 0;
};

// Values from this length on are split over all servers.
inline constexpr std::size_t kSplitFloats = 1'000'000;

// A small value is on one server, which depends on the key alone; a large one, if it may be split,
// on all of them, in ranges of rows.
std::vector<KeyRange> place_key(const std::string& key, std::size_t rows, std::size_t width,
                                int servers, bool may_split);

}  // namespace lockstep::kvstore
