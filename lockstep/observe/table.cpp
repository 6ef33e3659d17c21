// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/table.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/observe/text.h"

namespace lockstep::observe {
namespace {

std::string pad(const std::string& text, std::size_t width, Align align) {
  const std::string blanks(width - std::min(width, display_width(text)), ' ');
  return align == Align::kRight ? blanks + text : text + blanks;
}

std::string without_end_blanks(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace

Table::Table(std::vector<TableColumn> columns) : columns_(std::move(columns)) {
  std::vector<std::string> titles;
  for (const TableColumn& column : columns_) titles.push_back(column.title);
  if (std::ranges::any_of(titles, [](const std::string& title) { return !title.empty(); }))
    rows_.push_back(std::move(titles));
}

void Table::add(std::vector<std::string> row) {
  if (row.size() != columns_.size())
    throw InvalidArgument("table: a row has {} cells, expected {}", row.size(), columns_.size());
  rows_.push_back(std::move(row));
}

std::string Table::str() const {
  std::vector<std::size_t> widths(columns_.size(), 0);
  for (const auto& row : rows_)
    for (std::size_t c = 0; c < row.size(); ++c)
      widths[c] = std::max(widths[c], display_width(row[c]));
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c)
      line += (c == 0 ? "" : "  ") + pad(row[c], widths[c], columns_[c].align);
    text += without_end_blanks(std::move(line)) + "\n";
  }
  return text;
}

}  // namespace lockstep::observe
