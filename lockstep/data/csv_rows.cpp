// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "lockstep/data/csv.h"

namespace lockstep::data {
namespace {

class Parser {
 public:
  Parser(std::string_view text, const std::string& name, char separator)
      : rest_(text), name_(name), separator_(separator) {
    if (rest_.starts_with("\xef\xbb\xbf")) rest_.remove_prefix(3);
  }

  std::vector<CsvRow> all() {
    std::vector<CsvRow> rows;
    while (!rest_.empty())
      if (!skip_line_end()) rows.push_back(row());
    return rows;
  }

 private:
  bool skip_line_end() {
    const std::size_t length = rest_.starts_with("\r\n") ? 2 : rest_.starts_with('\n') ? 1 : 0;
    rest_.remove_prefix(length);
    line_ += length > 0 ? 1 : 0;
    return length > 0;
  }

  CsvRow row() {
    CsvRow result{line_, {}};
    do result.fields.push_back(rest_.starts_with('"') ? quoted() : plain());
    while (take(separator_));
    if (!rest_.empty() && !skip_line_end())
      throw Corrupt("{}:{}: csv: '{}' follows a closing quote, expected '{}' or the line's end",
                    name_, line_, rest_[0], separator_);
    return result;
  }

  bool take(char c) {
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  std::string plain() {
    const char stops[] = {separator_, '\n'};
    std::size_t end = std::min(rest_.find_first_of(std::string_view(stops, 2)), rest_.size());
    if (rest_.substr(0, end).ends_with('\r') && rest_.substr(end).starts_with('\n')) --end;
    std::string result(rest_.substr(0, end));
    rest_.remove_prefix(end);
    return result;
  }

  std::string quoted() {
    const std::int64_t first = line_;
    std::string result;
    take('"');
    while (!rest_.empty()) {
      if (take('"') && !rest_.starts_with('"')) return result;
      line_ += rest_[0] == '\n' ? 1 : 0;
      result.push_back(rest_[0]);
      rest_.remove_prefix(1);
    }
    throw Corrupt("{}:{}: csv: a quote is never closed", name_, first);
  }

  std::string_view rest_;
  const std::string& name_;
  char separator_;
  std::int64_t line_ = 1;
};

}  // namespace

std::vector<CsvRow> parse_csv(std::string_view text, const std::string& name, char separator) {
  if (separator == '"' || separator == '\n' || separator == '\r')
    throw InvalidArgument("csv: a quote or line end cannot be the separator");
  return Parser(text, name, separator).all();
}

}  // namespace lockstep::data
