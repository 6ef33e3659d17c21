// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/csv.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "lockstep/base/memory_error.h"

namespace lockstep::data {
namespace {

std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

template <class T>
bool parse_number(std::string_view text, T& value) {
  text = trim(text);
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

class Table {
 public:
  Table(std::vector<CsvRow> rows, const std::string& name, const CsvOptions& options)
      : rows_(std::move(rows)), name_(name), options_(options) {
    if (rows_.empty()) throw Corrupt("{}: csv: has no rows", name);
    columns_ = rows_[0].fields.size();
    label_ = label_column();
    if (options.header) {
      header_ = std::move(rows_[0].fields);
      rows_.erase(rows_.begin());
    }
    check_widths();
  }

  DatasetPtr dataset() const {
    if (options_.label == CsvLabel::none) return std::make_shared<ArrayDataset>(Fields{features()});
    std::vector<std::string> names;
    const Tensor labels = options_.label == CsvLabel::name ? named_labels(names) : label_numbers();
    return std::make_shared<ArrayDataset>(Fields{features(), labels}, names);
  }

 private:
  std::int64_t count() const { return static_cast<std::int64_t>(rows_.size()); }

  // The column's number, or one past the last when there is no label.
  std::size_t label_column() const {
    if (options_.label == CsvLabel::none) return columns_;
    if (!options_.label_column.empty()) return named_column();
    const auto columns = static_cast<std::int64_t>(columns_);
    const std::int64_t index = options_.label_index + (options_.label_index < 0 ? columns : 0);
    if (index < 0 || index >= columns)
      throw InvalidArgument("{}: csv: label column {} of {} columns", name_, options_.label_index,
                            columns);
    return static_cast<std::size_t>(index);
  }

  std::size_t named_column() const {
    const std::vector<std::string>& names = rows_[0].fields;
    const auto found = std::find(names.begin(), names.end(), options_.label_column);
    if (!options_.header || found == names.end())
      throw InvalidArgument("{}: csv: no column is named '{}'", name_, options_.label_column);
    return static_cast<std::size_t>(found - names.begin());
  }

  void check_widths() const {
    for (const CsvRow& row : rows_)
      if (row.fields.size() != columns_)
        throw Corrupt("{}:{}: csv: has {} fields, expected {} as in the first row", name_, row.line,
                      row.fields.size(), columns_);
  }

  template <class T>
  T number(const CsvRow& row, std::size_t column, const char* what) const {
    T value{};
    if (parse_number(row.fields[column], value)) return value;
    const std::string title = header_.empty() ? "" : fmt::format(" ({})", header_[column]);
    throw Corrupt("{}:{}: csv: column {}{} is '{}', expected {}", name_, row.line, column + 1,
                  title, row.fields[column], what);
  }

  Tensor features() const {
    std::vector<float> values;
    for (const CsvRow& row : rows_)
      for (std::size_t c = 0; c < columns_; ++c)
        if (c != label_) values.push_back(number<float>(row, c, "a number"));
    const std::size_t width = columns_ - (label_ < columns_ ? 1 : 0);
    return Tensor::from(values, {count(), static_cast<std::int64_t>(width)});
  }

  template <class T>
  Tensor labels_as(const char* what) const {
    std::vector<T> values;
    for (const CsvRow& row : rows_) values.push_back(number<T>(row, label_, what));
    return Tensor::from(values, {count()});
  }

  Tensor label_numbers() const {
    if (options_.label == CsvLabel::number) return labels_as<float>("a number");
    return labels_as<std::int64_t>("a whole number");
  }

  Tensor named_labels(std::vector<std::string>& names) const {
    std::map<std::string, std::int64_t> classes;
    for (const CsvRow& row : rows_) classes[row.fields[label_]] = 0;
    for (auto& [name, number] : classes) {
      number = static_cast<std::int64_t>(names.size());
      names.push_back(name);
    }
    std::vector<std::int64_t> values;
    for (const CsvRow& row : rows_) values.push_back(classes[row.fields[label_]]);
    return Tensor::from(values, {count()});
  }

  std::vector<CsvRow> rows_;
  std::vector<std::string> header_;
  const std::string& name_;
  const CsvOptions& options_;
  std::size_t columns_ = 0;
  std::size_t label_ = 0;
};

}  // namespace

DatasetPtr parse_csv_set(std::string_view text, const std::string& name,
                         const CsvOptions& options) {
  return Table(parse_csv(text, name, options.separator), name, options).dataset();
}

DatasetPtr read_csv(const std::string& path, const CsvOptions& options) {
  const std::string text = read_plain_or_gzip(path, options.max_inflated);
  return with_memory_for(path, [&] { return parse_csv_set(text, path, options); });
}

}  // namespace lockstep::data
