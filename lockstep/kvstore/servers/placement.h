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
};

// Contiguous ranges of about the same number of floats, in the order of the servers; some are empty
// where there are fewer pieces than servers.
std::vector<TableRange> split_layout(const FlatLayout& layout, int servers);

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
