// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/metrics_log.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "lockstep/base/file.h"
#include "tests/message.h"
#include "tests/observe/folder.h"
#include "tests/observe/full_disk.h"

namespace lockstep::observe {
namespace {

using lockstep::testing::FullDisk;
using lockstep::testing::message_of;
using lockstep::testing::TemporaryFolder;
using lockstep::testing::write_quickly;

void append_steps(MetricsLog& log, std::int64_t first, std::int64_t last) {
  for (std::int64_t step = first; step <= last; ++step)
    log.append({.step = step, .epoch = 1, .time = 0.5, .values = {{"loss", 0.25}}});
}

std::vector<std::int64_t> steps_in(const std::string& path) {
  std::vector<std::int64_t> steps;
  for (const MetricsRow& row : read_metrics(path)) steps.push_back(row.step);
  return steps;
}

TEST(MetricsLog, WritesOneObjectALine) {
  const TemporaryFolder folder;
  MetricsLog log = MetricsLog::create(folder / "m");
  log.append({.step = 1, .epoch = 1, .time = 0.5, .values = {{"loss", 0.1}, {"accuracy", 1}}});
  log.append({.step = 2, .epoch = 1, .time = 1.5, .values = {{"loss", std::nan("")}}});
  EXPECT_EQ(read_file(folder / "m"),
            "{\"step\":1,\"epoch\":1,\"time\":0.5,\"loss\":0.1,\"accuracy\":1.0}\n"
            "{\"step\":2,\"epoch\":1,\"time\":1.5,\"loss\":null}\n");
}

TEST(MetricsLog, ReadsWhatItWrote) {
  const TemporaryFolder folder;
  MetricsLog log = MetricsLog::create(folder / "m");
  log.append({.step = 7, .epoch = 2, .time = 0.1, .values = {{"loss", 1.0 / 3}, {"x", INFINITY}}});
  const MetricsRow row = read_metrics(folder / "m").at(0);
  EXPECT_EQ(row.step, 7);
  EXPECT_EQ(row.epoch, 2);
  EXPECT_EQ(row.time, 0.1);
  ASSERT_EQ(row.values.size(), 2u);
  EXPECT_EQ(row.values[0], (std::pair<std::string, double>("loss", 1.0 / 3)));
  EXPECT_TRUE(std::isnan(row.values[1].second));
}

TEST(MetricsLog, ResumingDropsTheStepsAfterTheCheckpoint) {
  const TemporaryFolder folder;
  {
    MetricsLog log = MetricsLog::create(folder / "m");
    append_steps(log, 1, 5);
  }
  MetricsLog log = MetricsLog::resume(folder / "m", 3);
  EXPECT_EQ(steps_in(folder / "m"), (std::vector<std::int64_t>{1, 2, 3}));
  append_steps(log, 4, 4);
  EXPECT_EQ(steps_in(folder / "m"), (std::vector<std::int64_t>{1, 2, 3, 4}));
}

TEST(MetricsLog, ResumingDropsAHalfWrittenLineWhereverItWasCut) {
  const TemporaryFolder folder;
  {
    MetricsLog log = MetricsLog::create(folder / "m");
    append_steps(log, 1, 2);
  }
  const std::string whole = read_file(folder / "m");
  for (std::size_t size = whole.find('\n') + 1; size < whole.size(); ++size) {
    write_quickly(folder / "m", whole.substr(0, size));
    EXPECT_EQ(steps_in(folder / "m"), (std::vector<std::int64_t>{1}));
    MetricsLog log = MetricsLog::resume(folder / "m", 1000);
    append_steps(log, 2, 2);
    EXPECT_EQ(read_file(folder / "m"), whole);
  }
}

TEST(MetricsLog, ResumingWithoutAFileStartsOne) {
  const TemporaryFolder folder;
  MetricsLog log = MetricsLog::resume(folder / "m", 3);
  append_steps(log, 4, 4);
  EXPECT_EQ(steps_in(folder / "m"), (std::vector<std::int64_t>{4}));
}

TEST(MetricsLog, AZeroedLastLineIsDroppedToo) {
  const TemporaryFolder folder;
  write_quickly(folder / "m", "{\"step\":1}\n" + std::string(20, '\0') + "\n");
  EXPECT_EQ(steps_in(folder / "m"), (std::vector<std::int64_t>{1}));
}

TEST(MetricsLog, ABadLineInTheMiddleIsNamedAndPassedOver) {
  const TemporaryFolder folder;
  for (const char* bad : {"garbage", "[1]", "{\"epoch\":1}", "{\"step\":\"one\"}", ""}) {
    write_quickly(folder / "m", "{\"step\":1}\n" + std::string(bad) + "\n{\"step\":2}\n");
    std::vector<std::string> told;
    const auto warn = [&](const std::string& line) { told.push_back(line); };
    EXPECT_EQ(read_metrics(folder / "m", warn).size(), 2);
    MetricsLog::resume(folder / "m", 5, warn).append({.step = 3});
    const std::string line = (folder / "m") + ": line 2 is not a JSON object with a step; left out";
    EXPECT_EQ(told, (std::vector<std::string>{line, line}));
    EXPECT_EQ(steps_in(folder / "m"), (std::vector<std::int64_t>{1, 2, 3}));
  }
}

TEST(MetricsLog, KnowsTheTimeOfTheLastRowThatItKept) {
  const TemporaryFolder folder;
  write_quickly(folder / "m", "{\"step\":1,\"time\":2.5}\n{\"step\":2,\"time\":4}\n");
  EXPECT_EQ(MetricsLog::resume(folder / "m", 1).time_before(), 2.5);
  EXPECT_EQ(MetricsLog::create(folder / "m").time_before(), 0);
}

TEST(MetricsLog, LinesLongerThanAPieceOfTheFileAndThanAnyRowAreRead) {
  const TemporaryFolder folder;
  const std::string long_name(std::size_t{700} << 10, 'a'), endless(std::size_t{3} << 20, 'b');
  write_quickly(folder / "m", "{\"step\":1,\"" + long_name + "\":5}\n{\"step\":2,\"" + endless +
                                  "\":5}\n{\"step\":3}\n");
  std::vector<std::string> told;
  const std::vector<MetricsRow> rows =
      read_metrics(folder / "m", [&](const std::string& line) { told.push_back(line); });
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].values.at(0).first, long_name);
  EXPECT_EQ(rows[1].step, 3);
  EXPECT_EQ(told.size(), 1u);
  const MetricsLog log = MetricsLog::resume(folder / "m", 1);
  EXPECT_EQ(steps_in(folder / "m"), (std::vector<std::int64_t>{1}));
}

TEST(MetricsLog, ReadingAMissingFileSaysWhich) {
  EXPECT_EQ(message_of<NotFound>([] { read_metrics("/no/such/m"); }),
            "/no/such/m: cannot open: no such file or folder");
}

TEST(MetricsLog, AFullDiskIsAnIoErrorWithThePathAndLeavesWholeLines) {
  const TemporaryFolder folder;
  MetricsLog log = MetricsLog::create(folder / "m");
  append_steps(log, 1, 2);
  const std::string before = read_file(folder / "m");
  {
    const FullDisk disk(before.size() + 10);
    EXPECT_EQ(message_of<IoError>([&] { append_steps(log, 3, 3); }),
              (folder / "m") + ": cannot write: File too large");
    EXPECT_EQ(read_file(folder / "m"), before);
  }
  append_steps(log, 3, 3);
  EXPECT_EQ(steps_in(folder / "m"), (std::vector<std::int64_t>{1, 2, 3}));
}

TEST(MetricsLog, AFolderThatIsNotThereIsAnIoErrorWithThePath) {
  EXPECT_EQ(message_of<IoError>([] { MetricsLog::create("/no/such/folder/m"); }),
            "/no/such/folder/m: cannot open: No such file or directory");
  const TemporaryFolder folder;
  EXPECT_EQ(message_of<IoError>([&] { MetricsLog::create(folder.path()); }),
            folder.path() + ": cannot open: Is a directory");
}

}  // namespace
}  // namespace lockstep::observe
