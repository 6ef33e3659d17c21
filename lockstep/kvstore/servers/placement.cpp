// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/servers/placement.h"

#include "lockstep/base/shard_tree.h"

namespace lockstep::kvstore {
namespace {

// The part of a parameter that lies in these pieces, of which some are its own.
FlatParameter part_of(const FlatParameter& parameter, const FlatPiece& first,
                      const FlatPiece& last) {
  FlatParameter part = parameter;
  part.count = last.range.end - first.range.begin;
  return part;
}

TableRange range_of(const FlatLayout& layout, std::size_t begin, std::size_t end) {
  TableRange range{.first_piece = begin};
  if (begin == end) return range;
  range.offset = layout.pieces[begin].offset;
  range.first_parameter = layout.pieces[begin].parameter;
  for (std::size_t first = begin; first < end;) {
    const std::size_t parameter = layout.pieces[first].parameter;
    std::size_t last = first;
    while (last + 1 < end && layout.pieces[last + 1].parameter == parameter) ++last;
    range.layout.add(
        part_of(layout.parameters[parameter], layout.pieces[first], layout.pieces[last]));
    first = last + 1;
  }
  for (const std::size_t place : layout.unused)
    if (place >= range.offset && place < range.offset + range.layout.floats)
      range.layout.unused.push_back(place - range.offset);
  return range;
}

void add_rows_of(TableRange& range, const RowTable& table, std::size_t number, ShardRange rows) {
  if (rows.lo == rows.hi) return;
  RowTable part = table;
  part.rows = static_cast<std::size_t>(rows.hi - rows.lo);
  range.layout.tables.push_back(part);
  range.rows.push_back({number, static_cast<std::size_t>(rows.lo)});
}

void split_tables(const FlatLayout& layout, bool by_rows, std::vector<TableRange>& ranges) {
  for (std::size_t t = 0; t < layout.tables.size(); ++t) {
    const auto rows = static_cast<std::int64_t>(layout.tables[t].rows);
    if (!by_rows) {
      add_rows_of(ranges[t % ranges.size()], layout.tables[t], t, {0, rows});
      continue;
    }
    const std::vector<ShardRange> parts = deal_shards(rows, static_cast<int>(ranges.size()));
    for (std::size_t s = 0; s < ranges.size(); ++s)
      add_rows_of(ranges[s], layout.tables[t], t, parts[s]);
  }
}

// FNV-1a.
std::uint64_t hash_of(const std::string& text) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return hash;
}

}  // namespace

std::vector<TableRange> split_layout(const FlatLayout& layout, int servers, bool by_rows) {
  std::vector<TableRange> ranges;
  const auto count = static_cast<std::size_t>(servers);
  std::size_t begin = 0;
  for (std::size_t s = 0; s < count; ++s) {
    const std::size_t limit = layout.floats / count * (s + 1);
    std::size_t end = begin;
    while (end < layout.pieces.size() && (s + 1 == count || layout.pieces[end].offset < limit))
      ++end;
    ranges.push_back(range_of(layout, begin, end));
    begin = end;
  }
  split_tables(layout, by_rows, ranges);
  return ranges;
}

std::vector<KeyRange> place_key(const std::string& key, std::size_t rows, std::size_t width,
                                int servers, bool may_split) {
  const auto count = static_cast<std::uint64_t>(servers);
  if (!may_split || servers == 1 || rows < count || rows * width < kSplitFloats)
    return {{.server = static_cast<int>(hash_of(key) % count), .row = 0, .rows = rows}};
  std::vector<KeyRange> ranges;
  for (const ShardRange& part : deal_shards(static_cast<std::int64_t>(rows), servers))
    ranges.push_back({.server = static_cast<int>(ranges.size()),
                      .row = static_cast<std::size_t>(part.lo),
                      .rows = static_cast<std::size_t>(part.hi - part.lo)});
  return ranges;
}

}  // namespace lockstep::kvstore
