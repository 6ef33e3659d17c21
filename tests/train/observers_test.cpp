// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/observers.h"

#include <gtest/gtest.h>

#include "lockstep/observe/event_file.h"
#include "lockstep/observe/metrics_log.h"
#include "tests/temporary_folder.h"
#include "tests/train/small_run.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;
using observe::RunFolder;
using testing::FileSizeLimit;
using testing::small_fit;
using testing::small_images;
using testing::small_net;
using testing::small_trainer;

double value_of(const observe::MetricsRow& row, const std::string& name) {
  for (const auto& [own, value] : row.values)
    if (own == name) return value;
  ADD_FAILURE() << "no " << name;
  return 0.0;
}

data::DatasetPtr byte_images(std::int64_t count) {
  const auto images = small_images(count);
  const auto& arrays = dynamic_cast<const data::ArrayDataset&>(*images).arrays();
  return std::make_shared<data::ArrayDataset>(
      data::Fields{cast(arrays[0], DType::uint8), arrays[1]});
}

FitResult run_observed(const RunFolder& run, FitOptions options, const data::DatasetPtr& dataset) {
  options.callbacks.push_back(record_metrics(run));
  options.checkpoints = run.checkpoints_path();
  return small_trainer(small_net()).fit(dataset, options);
}

// How many records of the run's event files have `text` in them.
int records_with(const RunFolder& run, const std::string& text) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator(run.events_path()))
    for (const std::string& record : observe::read_records(entry.path()))
      count += record.find(text) != std::string::npos;
  return count;
}

TEST(Observers, RecordStepsEvaluationsHistogramsAndPictures) {
  const testing::TemporaryFolder folder("observers_record");
  const RunFolder run = RunFolder::create(folder.path() + "/run");
  FitOptions options = small_fit(2);
  options.metrics = {std::make_shared<nn::TopKAccuracy>(2)};
  const FitResult result = run_observed(run, options, byte_images(100));
  const auto rows = observe::read_metrics(run.metrics_path());
  ASSERT_EQ(rows.size(), 10U);
  EXPECT_EQ(rows[0].step, 1);
  EXPECT_EQ(rows[4].step, 4);
  EXPECT_EQ(value_of(rows[4], "val_loss"), result.history[0].metric("loss"));
  EXPECT_EQ(value_of(rows[9], "val_accuracy"), result.validation.accuracy);
  EXPECT_EQ(value_of(rows[9], "val_" + options.metrics[0]->name()),
            result.validation.metrics[0].second);
  EXPECT_EQ(records_with(run, "loss/train"), 8);
  EXPECT_EQ(records_with(run, "loss/val"), 2);
  EXPECT_EQ(records_with(run, "parameters/0.weight"), 2);
  EXPECT_EQ(records_with(run, "samples/"), 4);
  EXPECT_EQ(records_with(run, "\x89PNG"), 4);
}

TEST(Observers, AResumedRunGoesOnInTheSameRecord) {
  const testing::TemporaryFolder folder("observers_resume");
  const RunFolder run = RunFolder::create(folder.path() + "/run");
  std::atomic<bool> stop = false;
  FitOptions options = small_fit(2);
  options.checkpoint_every = 100;
  options.stop = &stop;
  options.callbacks = {
      on_step([&](FitContext& context, const StepEvent&) { stop = context.step() == 6; })};
  run_observed(run, options, small_images(100));
  options.resume = true;
  options.callbacks.clear();
  stop = false;
  run_observed(run, options, small_images(100));
  std::vector<std::int64_t> steps;
  double time = 0.0;
  for (const auto& row : observe::read_metrics(run.metrics_path())) {
    steps.push_back(row.step);
    EXPECT_GE(row.time, time) << "of all starts";
    time = row.time;
  }
  EXPECT_EQ(steps, (std::vector<std::int64_t>{1, 2, 3, 4, 4, 5, 6, 7, 8, 8}));
}

TEST(Observers, AnEvaluationIsOfTheEpochOfItsLastStep) {
  const testing::TemporaryFolder folder("observers_epoch");
  const RunFolder run = RunFolder::create(folder.path() + "/run");
  FitOptions options = small_fit(2);
  options.evaluate_every = 2;
  const FitResult result = run_observed(run, options, small_images(100));
  std::vector<std::int64_t> epochs;
  for (const auto& row : observe::read_metrics(run.metrics_path())) epochs.push_back(row.epoch);
  EXPECT_EQ(epochs, (std::vector<std::int64_t>{1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2}));
  EXPECT_EQ(result.history[0].epoch, 1);
  EXPECT_EQ(result.history[2].epoch, 2);
}

TEST(Observers, AFullDiskEndsTheRecordAndNotTheTraining) {
  const testing::TemporaryFolder folder("observers_full_disk");
  const RunFolder run = RunFolder::create(folder.path() + "/run");
  std::unique_ptr<FileSizeLimit> limit;
  FitOptions options = small_fit(2);
  options.callbacks = {on_step([&](FitContext& context, const StepEvent&) {
    if (context.step() == 2) limit = std::make_unique<FileSizeLimit>(0);
    if (context.step() == 4) limit.reset();
  })};
  const FitResult result = run_observed(run, options, small_images(100));
  EXPECT_EQ(result.steps, 8);
  ASSERT_EQ(testing::other_warnings(result).size(), 1U);
  EXPECT_EQ(
      testing::other_warnings(result)[0],
      run.metrics_path() + ": cannot write: File too large; metrics are not recorded any more");
  EXPECT_EQ(observe::read_metrics(run.metrics_path()).size(), 1U);
}

TEST(Observers, ShowABarAnEpochAndEvaluationsBetween) {
  std::string shown;
  double seconds = 0.0;
  observe::ProgressTarget target{.write = [&](std::string_view text) { shown += text; },
                                 .now = [&] { return seconds += 1.0; },
                                 .width = [] { return 100; }};
  FitOptions options = small_fit(2);
  options.callbacks = {show_progress(target)};
  small_trainer(small_net()).fit(small_images(100), options);
  EXPECT_NE(shown.find("epoch 1/2"), std::string::npos) << shown;
  EXPECT_NE(shown.find("epoch 2/2"), std::string::npos) << shown;
  EXPECT_NE(shown.find("step 8: test loss"), std::string::npos) << shown;
}

TEST(Observers, ARunThatEndsWithinAnEpochShowsItsEnd) {
  std::string shown;
  double seconds = 0.0;
  observe::ProgressTarget target{.write = [&](std::string_view text) { shown += text; },
                                 .now = [&] { return seconds += 0.1; },
                                 .width = [] { return 100; }};
  FitOptions options = small_fit(0);
  options.steps = 6;
  options.callbacks = {show_progress(target)};
  small_trainer(small_net()).fit(small_images(100), options);
  const std::size_t end = shown.find("epoch 2/2  2/2");
  EXPECT_NE(end, std::string::npos) << shown;
  EXPECT_LT(end, shown.find("step 6: test loss")) << shown;
}

}  // namespace
}  // namespace lockstep::train
