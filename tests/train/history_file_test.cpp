// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/detail/history_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "lockstep/base/file.h"
#include "lockstep/train/checkpoint.h"
#include "lockstep/train/detail/fit_state.h"
#include "tests/temporary_folder.h"
#include "tests/train/small_run.h"

namespace lockstep::train {
namespace {

using testing::small_fit;

constexpr std::int64_t kRecordedSteps = 300;  // an evaluation each: more than a checkpoint has

FitOptions many_evaluations(const std::string& folder) {
  FitOptions options = small_fit();
  options.steps = kRecordedSteps;
  options.evaluate_every = 1;
  options.checkpoint_every = 50;
  options.checkpoints = folder;
  options.validation = testing::small_images(8, 6);
  return options;
}

// After `steps`, as an interruption does.
FitResult run_until(FitOptions options, std::int64_t steps) {
  std::atomic<bool> stop = false;
  options.stop = &stop;
  options.callbacks.push_back(
      on_step([&](FitContext&, const StepEvent& event) { stop = event.step == steps; }));
  return testing::run_small(options);
}

std::size_t lines_in(const std::string& path) {
  const std::string text = read_file(path);
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

void expect_same_history(const FitResult& got, const FitResult& expected) {
  ASSERT_EQ(got.history.size(), expected.history.size());
  for (std::size_t i = 0; i < got.history.size(); ++i) {
    EXPECT_EQ(got.history[i].step, expected.history[i].step);
    EXPECT_EQ(got.history[i].metrics, expected.history[i].metrics);
  }
}

TEST(HistoryFile, ACheckpointHasTheLastEvaluationsAndTheOthersAreBesideIt) {
  const testing::TemporaryFolder folder("history_split");
  const FitResult result = testing::run_small(many_evaluations(folder.path()));
  ASSERT_EQ(result.history.size(), 300U);
  const auto training = nlohmann::json::parse(read_checkpoint(result.checkpoint).training);
  EXPECT_EQ(training.at("history").size(), 256U);
  EXPECT_EQ(training.at("history_before"), 44);
  EXPECT_EQ(lines_in(folder.path() + "/history.jsonl"), 44U);
}

TEST(HistoryFile, AResumedRunHasTheWholeHistory) {
  const testing::TemporaryFolder folder("history_resume");
  const FitResult whole = testing::run_small(many_evaluations(folder.path() + "/whole"));
  FitOptions options = many_evaluations(folder.path() + "/cut");
  run_until(options, 290);
  options.resume = true;
  const FitResult resumed = testing::run_small(options);
  EXPECT_EQ(resumed.resumed_from, 290);
  EXPECT_EQ(resumed.params_sha256, whole.params_sha256);
  expect_same_history(resumed, whole);
}

// The best evaluation is among those that the checkpoint itself has not.
TEST(HistoryFile, AResumedRunStopsEarlyWhereTheWholeOneDoes) {
  const testing::TemporaryFolder folder("history_stop");
  const Monitor never{.metric = "loss", .maximize = true, .min_delta = 1e6};  // the first is best
  const auto stopping = [&](const std::string& name) {
    FitOptions options = many_evaluations(folder.path() + "/" + name);
    options.callbacks = {early_stopping(never, 285)};
    return options;
  };
  const FitResult whole = testing::run_small(stopping("whole"));
  EXPECT_EQ(whole.steps, 286);
  run_until(stopping("cut"), 280);
  FitOptions options = stopping("cut");
  options.resume = true;
  const FitResult resumed = testing::run_small(options);
  EXPECT_EQ(resumed.steps, 286);
  EXPECT_EQ(resumed.stop_reason, whole.stop_reason);
}

TEST(HistoryFile, WhatARunWroteThatWentFurtherIsCutOff) {
  const testing::TemporaryFolder folder("history_further");
  const FitResult whole = testing::run_small(many_evaluations(folder.path()));
  std::filesystem::remove(whole.checkpoint);  // back to step 250, before anything was in the file
  FitOptions options = many_evaluations(folder.path());
  options.resume = true;
  expect_same_history(testing::run_small(options), whole);
  EXPECT_EQ(lines_in(folder.path() + "/history.jsonl"), 44U);
}

TEST(HistoryFile, AFileThatIsGoneIsAWarning) {
  const testing::TemporaryFolder folder("history_gone");
  FitOptions options = many_evaluations(folder.path());
  testing::run_small(options);
  std::filesystem::remove(folder.path() + "/history.jsonl");
  options.resume = true;
  const FitResult resumed = testing::run_small(options);
  EXPECT_EQ(resumed.history.size(), 256U);
  EXPECT_EQ(testing::other_warnings(resumed).at(0),
            folder.path() +
                "/history.jsonl: has 0 of the 44 evaluations before those in the checkpoint: what "
                "looks at the history may decide otherwise");
}

std::vector<EvaluationRecord> records(std::int64_t count) {
  std::vector<EvaluationRecord> all;
  for (std::int64_t i = 1; i <= count; ++i)
    all.push_back({.step = i, .epoch = 1, .metrics = {{"loss", 1.0 / static_cast<double>(i)}}});
  return all;
}

TEST(HistoryFile, AWriteThatFailedIsMadeAgainFromItsBeginning) {
  const testing::TemporaryFolder folder("history_failed");
  const auto all = records(5);
  detail::HistoryFile file(folder.path());
  file.write(all, 2);
  const std::string whole = detail::lines_of(all);
  {
    const testing::FileSizeLimit limit(whole.size() - 10);  // some lines, and a part of one
    EXPECT_THROW(file.write(all, 5), IoError);
  }
  file.write(all, 5);
  EXPECT_EQ(read_file(file.path()), whole);
}

TEST(HistoryFile, AHalfLineAtItsEndIsDropped) {
  const testing::TemporaryFolder folder("history_half");
  const auto all = records(5);
  const std::string four = detail::lines_of(std::span(all).first(4));
  detail::HistoryFile file(folder.path());
  write_file(file.path(), four + R"({"epoch": 1, "me)");
  EXPECT_EQ(file.resume(5), four);
  file.write(all, 5);
  EXPECT_EQ(read_file(file.path()), detail::lines_of(all));
}

TEST(HistoryFile, WarningsOfAResultAreBounded) {
  FitOptions options = small_fit(1);
  options.callbacks = {on_step([&](FitContext& context, const StepEvent& event) {
    for (int i = 0; i < 1000; ++i) context.warn(fmt::format("{}.{}", event.step, i));
  })};
  const std::vector<std::string> warnings = testing::other_warnings(testing::run_small(options));
  EXPECT_EQ(warnings.size(), 999U);  // and one of batch norm
  EXPECT_EQ(warnings[0], "1.0");
  EXPECT_EQ(warnings.back(), "4.999");
}

}  // namespace
}  // namespace lockstep::train
