// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/message.h"
#include "tests/temporary_folder.h"
#include "tests/train/small_run.h"

namespace lockstep::train {
namespace {

using testing::message_of;

// Nothing is ever better by so much.
constexpr double kTooMuch = 1e6;

FitOptions watching(const std::string& folder, std::int64_t steps) {
  FitOptions fit = testing::small_fit();
  fit.steps = steps;
  fit.evaluate_every = 3;
  fit.checkpoints = folder;
  fit.resume = true;
  return fit;
}

FitOptions on_plateau(const std::string& folder, std::int64_t steps) {
  FitOptions fit = watching(folder, steps);
  fit.schedule = optim::reduce_on_plateau(
      {.metric = "loss", .factor = 0.5, .patience = 2, .min_delta = kTooMuch},
      optim::constant(0.08));
  return fit;
}

FitOptions stopping(const std::string& folder, std::int64_t steps) {
  FitOptions fit = watching(folder, steps);
  fit.callbacks = {early_stopping({.metric = "loss", .maximize = false, .min_delta = kTooMuch}, 4)};
  return fit;
}

// The first run ends, and evaluates, at a step where the whole one does not.
TEST(ARunMadeLonger, HasTheBitsOfTheWholeOneThoughItsRateDependsOnEvaluations) {
  const testing::TemporaryFolder folder("longer_plateau");
  const FitResult whole = testing::run_small(on_plateau(folder.path() + "/whole", 20));
  EXPECT_EQ(testing::run_small(on_plateau(folder.path() + "/cut", 7)).history.back().step, 7);
  const FitResult longer = testing::run_small(on_plateau(folder.path() + "/cut", 20));
  EXPECT_EQ(longer.resumed_from, 7);
  EXPECT_EQ(longer.params_sha256, whole.params_sha256);
  EXPECT_EQ(longer.history.size(), whole.history.size());
}

TEST(ARunMadeLonger, StopsEarlyWhereTheWholeOneDoes) {
  const testing::TemporaryFolder folder("longer_stopping");
  const FitResult whole = testing::run_small(stopping(folder.path() + "/whole", 20));
  EXPECT_EQ(whole.steps, 15);
  testing::run_small(stopping(folder.path() + "/cut", 7));
  EXPECT_EQ(testing::run_small(stopping(folder.path() + "/cut", 20)).steps, whole.steps);
}

TEST(ARunMadeLonger, KeepsItsLastEvaluationWhileThereIsNothingMoreToDo) {
  const testing::TemporaryFolder folder("not_longer");
  testing::run_small(on_plateau(folder.path(), 7));
  EXPECT_EQ(testing::run_small(on_plateau(folder.path(), 7)).history.back().step, 7);
}

TEST(ReduceOnPlateau, NeedsAValidationSet) {
  FitOptions fit = testing::small_fit(1);
  fit.validation = nullptr;
  fit.schedule = optim::reduce_on_plateau({.metric = "loss"});
  EXPECT_EQ(message_of([&] { testing::run_small(fit); }),
            "reduce_on_plateau: watches the loss of evaluations, and there are none: give the run "
            "a validation set (FitOptions::validation)");
}

// The message of a run that fails before its first step.
std::string message_before_steps(FitOptions fit) {
  bool steps = false;
  fit.callbacks = {on_step([&](FitContext&, const StepEvent&) { steps = true; })};
  const std::string message = message_of<NotFound>([&] { testing::run_small(fit); });
  EXPECT_FALSE(steps);
  return message;
}

TEST(WatchedMetrics, ThatNobodyComputesAreNamedBeforeTheFirstStep) {
  FitOptions fit = testing::small_fit(1);
  fit.metrics = {nn::metric("mse")};
  fit.train_metrics = {nn::metric("mse")};
  FitOptions monitored = fit;
  fit.schedule = optim::reduce_on_plateau({.metric = "f1"});
  monitored.monitor = Monitor{.metric = "f2"};
  const std::string names = ", it has loss, accuracy, mse, train_mse";
  EXPECT_EQ(message_before_steps(fit), "train: evaluation has no metric named 'f1'" + names);
  EXPECT_EQ(message_before_steps(monitored), "train: evaluation has no metric named 'f2'" + names);
}

}  // namespace
}  // namespace lockstep::train
