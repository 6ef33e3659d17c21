// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/load_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

namespace lockstep::nn {
namespace {

using Cells = std::array<std::string, 4>;

const char* word_of(LoadStatus status) {
  switch (status) {
    case LoadStatus::mismatched: return "another shape";
    case LoadStatus::missing: return "missing";
    case LoadStatus::unexpected: return "unexpected";
    case LoadStatus::loaded: return "fits";
  }
  return "";
}

std::string text_of(const std::optional<Shape>& shape) { return shape ? shape->str() : "-"; }

std::string str_of(const std::vector<Cells>& rows) {
  std::array<std::size_t, 4> widths = {};
  for (const Cells& row : rows)
    for (std::size_t i = 0; i + 1 < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const Cells& row : rows)
    text += fmt::format("{:<{}}  {:<{}}  {:<{}}  {}\n", row[0], widths[0], row[1], widths[1],
                        row[2], widths[2], row[3]);
  return text;
}

void append_count(std::string& text, std::size_t count, const char* one, const char* several) {
  if (count > 0) text += fmt::format("; {} {}", count, count == 1 ? one : several);
}

}  // namespace

std::vector<std::string> LoadReport::names(LoadStatus status) const {
  std::vector<std::string> chosen;
  for (const Row& row : rows)
    if (row.status == status) chosen.push_back(row.name);
  return chosen;
}

std::string LoadReport::summary() const {
  std::size_t counts[4] = {};
  for (const Row& row : rows) ++counts[static_cast<std::size_t>(row.status)];
  const auto [mismatched, missing, unexpected, loaded] = counts;
  std::string text =
      fmt::format("{} of the block's {} parameters fit", loaded, loaded + mismatched + missing);
  append_count(text, mismatched, "has another shape", "have another shape");
  append_count(text, missing, "is missing in the file", "are missing in the file");
  append_count(text, unexpected, "in the file is unexpected", "in the file are unexpected");
  return text;
}

std::string LoadReport::str(std::size_t most) const {
  std::vector<Cells> cells = {{"parameter", "in the block", "in the file", "status"}};
  std::size_t shown = 0, left = 0;
  const auto tell_left = [&](LoadStatus status) {
    if (left > 0) cells.push_back({fmt::format("... {} more", left), "", "", word_of(status)});
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    if (i > 0 && row.status != rows[i - 1].status) {
      tell_left(rows[i - 1].status);
      shown = left = 0;
    }
    if (shown == most) {
      ++left;
      continue;
    }
    ++shown;
    cells.push_back({row.name, text_of(row.block), text_of(row.file), word_of(row.status)});
  }
  if (!rows.empty()) tell_left(rows.back().status);
  return str_of(cells);
}

}  // namespace lockstep::nn
