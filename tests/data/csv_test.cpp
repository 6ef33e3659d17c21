// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/csv.h"

#include <gtest/gtest.h>

#include "tests/data/files.h"
#include "tests/data/gzipped.h"
#include "tests/message.h"

namespace lockstep::data {
namespace {

using testing::message_of;
using Fieldss = std::vector<std::vector<std::string>>;

Fieldss fields_of(std::string_view text, char separator = ',') {
  Fieldss result;
  for (const CsvRow& row : parse_csv(text, "f", separator)) result.push_back(row.fields);
  return result;
}

std::string corrupt_csv(std::string_view text, const CsvOptions& options = {}) {
  return message_of<Corrupt>([&] { parse_csv_set(text, "f", options); });
}

TEST(Csv, FieldsMayBeQuoted) {
  EXPECT_EQ(fields_of("a,\"b,c\",d\n"), (Fieldss{{"a", "b,c", "d"}}));
  EXPECT_EQ(fields_of("\"say \"\"hi\"\"\",\"\"\n"), (Fieldss{{"say \"hi\"", ""}}));
  EXPECT_EQ(fields_of("\"two\nlines\",x"), (Fieldss{{"two\nlines", "x"}}));
}

TEST(Csv, LineEndsMarksAndEmptyLinesAreLeftOut) {
  EXPECT_EQ(fields_of("\xef\xbb\xbf"
                      "1,2\r\n\r\n3,\"4\"\r\n\n5,"),
            (Fieldss{{"1", "2"}, {"3", "4"}, {"5", ""}}));
  EXPECT_EQ(fields_of("1;2,5", ';'), (Fieldss{{"1", "2,5"}}));
  EXPECT_EQ(fields_of(""), Fieldss{});
}

TEST(Csv, RowsKnowTheirLines) {
  const std::vector<CsvRow> rows = parse_csv("\n\"a\nb\"\nc\n", "f");
  ASSERT_EQ(rows.size(), 2);
  EXPECT_EQ(rows[0].line, 2);
  EXPECT_EQ(rows[1].line, 4);
}

TEST(Csv, TheLastColumnIsTheLabel) {
  const DatasetPtr set = parse_csv_set("x,y,label\n1, 2.5 ,0\n-3e2,+4,1\n", "f");
  const Fields all = set->batch(std::vector<std::int64_t>{0, 1});
  EXPECT_EQ(all[0].info().str(), "float32[2, 2]");
  EXPECT_EQ(all[0].to_vector<float>(), (std::vector<float>{1, 2.5, -300, 4}));
  EXPECT_EQ(all[1].info().str(), "int64[2]");
  EXPECT_EQ(all[1].to_vector<int>(), (std::vector<int>{0, 1}));
}

TEST(Csv, TheLabelMayBeAnyColumn) {
  const std::string_view text = "a,b,c\n7,8,9\n";
  EXPECT_EQ(parse_csv_set(text, "f", {.label_column = "b"})->sample(0)[1].item(), 8);
  EXPECT_EQ(parse_csv_set(text, "f", {.label_index = 0})->sample(0)[1].item(), 7);
  EXPECT_EQ(parse_csv_set(text, "f", {.label_column = "b"})->sample(0)[0].to_vector<int>(),
            (std::vector<int>{7, 9}));
}

TEST(Csv, LabelsMayBeNumbersNamesOrNone) {
  const std::string_view text = "1,2.5\n3,4.5\n";
  const DatasetPtr numbers = parse_csv_set(text, "f", {.header = false, .label = CsvLabel::number});
  EXPECT_EQ(numbers->sample(1)[1].item(), 4.5);
  const DatasetPtr none = parse_csv_set(text, "f", {.header = false, .label = CsvLabel::none});
  EXPECT_EQ(none->sample(0).size(), 1);
  EXPECT_EQ(none->sample(0)[0].shape(), Shape{2});
  const DatasetPtr names =
      parse_csv_set("1,rose\n2,iris\n3,rose\n", "f", {.header = false, .label = CsvLabel::name});
  EXPECT_EQ(names->class_names(), (std::vector<std::string>{"iris", "rose"}));
  EXPECT_EQ(names->sample(0)[1].item(), 1);
}

TEST(Csv, AFileMayBeGzip) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.write("a.csv", testing::gzipped("x,y\n1,2\n"));
  EXPECT_EQ(read_csv(path)->sample(0)[1].item(), 2);
  EXPECT_THROW(read_csv(folder.path("b.csv")), NotFound);
}

TEST(Csv, ErrorsNameTheLine) {
  EXPECT_EQ(corrupt_csv("x,y\n1,2\n1,2,3\n"),
            "f:3: csv: has 3 fields, expected 2 as in the first row");
  EXPECT_EQ(corrupt_csv("x,y\n1,2\n\none,2\n"),
            "f:4: csv: column 1 (x) is 'one', expected a number");
  EXPECT_EQ(corrupt_csv("1,2\n,2\n", {.header = false}),
            "f:2: csv: column 1 is '', expected a number");
  EXPECT_EQ(corrupt_csv("x,y\n1,2.5\n"),
            "f:2: csv: column 2 (y) is '2.5', expected a whole number");
  EXPECT_EQ(corrupt_csv("x,y\n\"a\n,2\n"), "f:2: csv: a quote is never closed");
  EXPECT_EQ(corrupt_csv("x,y\n\"1\"2,3\n"),
            "f:2: csv: '2' follows a closing quote, expected ',' or the line's end");
  EXPECT_EQ(corrupt_csv(""), "f: csv: has no rows");
}

TEST(Csv, ALabelColumnThatIsNotThereIsNamed) {
  EXPECT_EQ(message_of([] { parse_csv_set("x,y\n", "f", {.label_column = "z"}); }),
            "f: csv: no column is named 'z'");
  EXPECT_EQ(message_of([] { parse_csv_set("x,y\n", "f", {.label_index = -3}); }),
            "f: csv: label column -3 of 2 columns");
  EXPECT_EQ(message_of([] { parse_csv("x", "f", '"'); }),
            "csv: a quote or line end cannot be the separator");
}

}  // namespace
}  // namespace lockstep::data
