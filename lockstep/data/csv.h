// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/gzip.h"
#include "lockstep/data/dataset.h"

namespace lockstep::data {

struct CsvRow {
  std::int64_t line;  // of the file, from 1, where the row begins
  std::vector<std::string> fields;
};

// Rows as RFC 4180 has them: quoted fields may hold separators, line ends and doubled quotes. A
// byte order mark and empty lines are left out. Throws Corrupt that begins with `name:line`.
std::vector<CsvRow> parse_csv(std::string_view text, const std::string& name, char separator = ',');

enum class CsvLabel {
  none,     // every column is a feature
  integer,  // int64 [N]
  number,   // float32 [N]
  name,     // the texts there are, sorted, are the classes: int64 [N]
};

struct CsvOptions {
  bool header = true;  // the first row has the columns' names
  char separator = ',';
  CsvLabel label = CsvLabel::integer;
  std::string label_column = {};             // its name; empty: label_index counts
  std::int64_t label_index = -1;             // below 0: from the end
  std::int64_t max_inflated = kMaxInflated;  // bytes of a gzip file's contents
};

// Features as float32 [N, columns], then the labels. Plain or gzip. Throws NotFound, IoError or
// Corrupt that begins with `path:line`.
DatasetPtr read_csv(const std::string& path, const CsvOptions& options = {});
DatasetPtr parse_csv_set(std::string_view text, const std::string& name,
                         const CsvOptions& options = {});

}  // namespace lockstep::data
