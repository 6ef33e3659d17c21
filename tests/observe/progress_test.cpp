// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/progress.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace lockstep::observe {
namespace {

// A terminal, or a file, with a clock that a test turns.
struct Screen {
  std::string text;
  double time = 100;
  int columns = 90;

  ProgressTarget target(bool terminal) {
    return {.write = [this](std::string_view piece) { text += piece; },
            .now = [this] { return time; },
            .width = [this] { return columns; },
            .terminal = terminal,
            .line_seconds = 10};
  }
  // What stands on the line that is drawn now.
  std::string line() const { return text.substr(text.rfind("\x1b[K") + 3); }
  long drawings() const { return std::count(text.begin(), text.end(), '\r'); }
};

ProgressTask epoch_2() { return {.label = "epoch 2/5", .total = 468, .samples_per_step = 128}; }

TEST(Progress, DrawsABarWithTheFiguresBehindIt) {
  Screen screen;
  Progress progress(screen.target(true));
  progress.begin(epoch_2());
  screen.time += 6;
  progress.update(312, {{"loss", 0.0412}, {"acc", 0.987}});
  EXPECT_EQ(screen.line(),
            "epoch 2/5 [==========>     ] 312/468  loss 0.0412  acc 0.9870  6,656 samples/s  "
            "0:03 left");
}

TEST(Progress, FillsTheWidthOfTheTerminalAndNoMore) {
  for (int columns = 1; columns < 160; ++columns) {
    Screen screen;
    screen.columns = columns;
    Progress progress(screen.target(true));
    progress.begin(epoch_2());
    screen.time += 6;
    progress.update(312, {{"loss", 0.0412}, {"acc", 0.987}});
    EXPECT_LT(screen.line().size(), static_cast<std::size_t>(columns)) << screen.line();
  }
}

TEST(Progress, LeavesTheBarOutWhereThereIsNoRoomForIt) {
  Screen screen;
  screen.columns = 60;
  Progress progress(screen.target(true));
  progress.begin(epoch_2());
  screen.time += 6;
  progress.update(312, {{"loss", 0.0412}, {"acc", 0.987}});
  EXPECT_EQ(screen.line(), "epoch 2/5 312/468  loss 0.0412  acc 0.9870  6,656 samples/~");
}

TEST(Progress, DrawsAtMostTenTimesASecond) {
  Screen screen;
  Progress progress(screen.target(true));
  progress.begin({.label = "work", .total = 100000});
  for (int step = 1; step <= 100000; ++step) {
    screen.time += 1.0 / 10000;
    progress.update(step);
  }
  EXPECT_GT(screen.drawings(), 90);
  EXPECT_LE(screen.drawings(), 101);
}

TEST(Progress, AFinishedTaskLeavesOneCleanLine) {
  Screen screen;
  Progress progress(screen.target(true));
  progress.begin(epoch_2());
  screen.time += 6;
  progress.update(468, {{"loss", 0.5}});
  screen.time += 6;
  progress.finish({{"loss", 0.25}});
  EXPECT_EQ(screen.line(), "epoch 2/5  468/468  loss 0.2500  4,992 samples/s  in 0:12\n");
}

TEST(Progress, NoTimeAtAllTellsNoRate) {
  Screen screen;
  Progress progress(screen.target(true));
  progress.begin({.label = "epoch 1/1", .total = 1, .samples_per_step = 128});
  progress.update(1, {});
  screen.time += 5e-6;
  progress.finish({});
  EXPECT_EQ(screen.line(), "epoch 1/1  1/1  in 0:00\n");
}

TEST(Progress, WhatIsWrittenAfterAnAbandonedBarStartsOnANewLine) {
  Screen screen;
  {
    Progress progress(screen.target(true));
    progress.begin(epoch_2());
  }
  EXPECT_EQ(screen.line().back(), '\n');
}

TEST(Progress, NothingFollowsAFinishedTask) {
  Screen screen;
  std::string before;
  {
    Progress progress(screen.target(true));
    progress.begin(epoch_2());
    progress.finish();
    before = screen.text;
    progress.update(3);
    progress.finish();
  }
  EXPECT_EQ(screen.text, before);
}

TEST(Progress, AMessageStandsAboveTheBar) {
  Screen screen;
  Progress progress(screen.target(true));
  progress.begin({.label = "work", .total = 4});
  progress.message("checkpoint written");
  EXPECT_NE(screen.text.find("\r\x1b[Kcheckpoint written\n"), std::string::npos);
  EXPECT_TRUE(screen.line().starts_with("work ["));
}

TEST(Progress, BeginningATaskEndsTheOneBefore) {
  Screen screen;
  Progress progress(screen.target(true));
  progress.begin({.label = "one", .total = 4});
  progress.begin({.label = "two", .total = 4});
  EXPECT_NE(screen.text.find("one  0/4  in 0:00\n"), std::string::npos);
}

TEST(Progress, ElsewhereThereArePlainLinesNowAndThen) {
  Screen screen;
  Progress progress(screen.target(false));
  progress.begin(epoch_2());
  for (int step = 1; step <= 468; ++step) {
    screen.time += 0.0625;
    progress.update(step, {{"loss", 0.5}});
  }
  progress.finish();
  EXPECT_EQ(screen.text,
            "epoch 2/5  0/468 steps\n"
            "epoch 2/5  160/468  loss 0.5000  2,048 samples/s  0:19 left\n"
            "epoch 2/5  320/468  loss 0.5000  2,048 samples/s  0:09 left\n"
            "epoch 2/5  468/468  loss 0.5000  2,048 samples/s  in 0:29\n");
}

TEST(Progress, PlainLinesHaveNoControlCharacters) {
  Screen screen;
  {
    Progress progress(screen.target(false));
    progress.begin(epoch_2());
    screen.time += 60;
    progress.update(3, {{"loss", 0.5}});
    progress.message("a checkpoint");
  }
  EXPECT_TRUE(std::ranges::all_of(screen.text, [](char c) { return c == '\n' || c >= ' '; }));
  EXPECT_EQ(screen.text.back(), '\n');
}

TEST(Progress, CountsBytesOfADownload) {
  Screen screen;
  Progress progress(screen.target(true));
  progress.begin({.label = "mnist", .total = 11594722, .unit = ProgressUnit::kBytes});
  screen.time += 2;
  progress.update(4000000);
  EXPECT_EQ(screen.line(),
            "mnist [==========>                   ] 4.0 MB/11.6 MB  2.0 MB/s  0:04 left");
}

TEST(Progress, ATaskOfUnknownLengthHasNoBar) {
  Screen screen;
  Progress progress(screen.target(true));
  progress.begin({.label = "mnist", .unit = ProgressUnit::kBytes});
  screen.time += 2;
  progress.update(4000000);
  EXPECT_EQ(screen.line(), "mnist 4.0 MB  2.0 MB/s");
}

TEST(Progress, AResumedTaskCountsItsOwnStepsForTheRate) {
  Screen screen;
  Progress progress(screen.target(false));
  progress.begin({.label = "epoch", .total = 100, .first = 50});
  screen.time += 5;
  progress.update(100);
  progress.finish();
  EXPECT_EQ(screen.text, "epoch  50/100 steps\nepoch  100/100  10 steps/s  in 0:05\n");
}

TEST(Progress, TheRateForgetsASlowStart) {
  Screen screen;
  Progress progress(screen.target(true));
  progress.begin({.label = "work", .total = 1000000});
  screen.time += 100;
  for (int step = 1; step <= 4000; ++step) {
    screen.time += 0.01;
    progress.update(step);
  }
  EXPECT_NE(screen.line().find("  100 steps/s  "), std::string::npos) << screen.line();
}

TEST(Progress, ManyThreadsMayCall) {
  Screen screen;
  Progress progress(screen.target(false));
  progress.begin({.label = "work", .total = 1000});
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] {
        for (int step = 0; step < 1000; ++step) progress.update(1000, {{"loss", 1}});
      });
  }
  progress.finish();
  EXPECT_EQ(screen.text, "work  0/1000 steps\nwork  1000/1000  loss 1.000  in 0:00\n");
}

TEST(Progress, NowhereShowsNothing) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  Progress progress(nowhere());
  progress.begin({.label = "work", .total = 10});
  progress.update(3);
  progress.message("x");
  progress.finish();
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace lockstep::observe
