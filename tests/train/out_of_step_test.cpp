// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <limits>
#include <mutex>

#include "lockstep/optim/optimizers.h"
#include "lockstep/train/checkpoint.h"
#include "lockstep/train/detail/ticket_loop.h"
#include "tests/kvstore/servers/server_room.h"
#include "tests/message.h"
#include "tests/train/small_run.h"

namespace lockstep::train {
namespace {

using testing::message_of, testing::ServerRoom;

constexpr std::int64_t kFreeShards = 8, kFreeBatch = 24, kFreeSamples = 96,
                       kFreeSteps = 4;  // an epoch's

// Counts how often each sample is asked for.
class CountingDataset final : public data::Dataset {
 public:
  explicit CountingDataset(data::DatasetPtr samples)
      : samples_(std::move(samples)), counts_(static_cast<std::size_t>(samples_->size())) {}
  std::int64_t size() const override { return samples_->size(); }
  data::Fields sample(std::int64_t index) const override {
    ++counts_[static_cast<std::size_t>(index)];
    return samples_->sample(index);
  }
  int count(std::int64_t index) const { return counts_[static_cast<std::size_t>(index)]; }

 private:
  data::DatasetPtr samples_;
  mutable std::vector<std::atomic<int>> counts_;
};

Trainer make_trainer(kvstore::Mode* mode, const optim::OptimizerPtr& rule, int threads = 1) {
  return {testing::small_net(),
          testing::cross_entropy(),
          rule,
          {.global_batch = kFreeBatch,
           .shards = kFreeShards,
           .threads = threads,
           .seed = 3,
           .mode = mode}};
}

FitOptions fit_options(std::int64_t epochs) {
  FitOptions options = testing::small_fit(epochs);
  options.transform = data::to_tensor();
  options.sampler = data::sequential_sampler(kFreeSamples);
  options.may_differ = {"epochs", "schedule"};
  return options;
}

std::string empty_folder(const std::string& name) {
  const std::string folder = (std::filesystem::path(::testing::TempDir()) / name).string();
  std::filesystem::remove_all(folder);
  return folder;
}

// Every worker looks at the first ticket before they are dealt, and at the first and the last
// sample to compare its data with the others'.
void expect_each_sample(const CountingDataset& dataset, int times, int workers, int looks = 1) {
  const std::int64_t ticket = kFreeBatch / detail::TicketPlan::of(kFreeShards, workers).per_step;
  for (std::int64_t i = 1; i + 1 < kFreeSamples; ++i)
    EXPECT_EQ(dataset.count(i), times + (i < ticket ? workers * looks : 0)) << "sample " << i;
}

TEST(OutOfStep, AStepIsCutIntoTicketsOfWholeShards) {
  const auto plan = [](std::int64_t shards, int workers) {
    const detail::TicketPlan plan = detail::TicketPlan::of(shards, workers);
    return std::pair(plan.per_step, plan.shards);
  };
  EXPECT_EQ(plan(8, 1), std::pair(1L, 8L));
  EXPECT_EQ(plan(8, 3), std::pair(4L, 2L));
  EXPECT_EQ(plan(8, 4), std::pair(4L, 2L));
  EXPECT_EQ(plan(7, 2), std::pair(7L, 1L));
}

TEST(OutOfStep, OneWorkerHasTheBitsOfAProcessAlone) {
  const auto dataset = testing::small_images(kFreeSamples);
  const optim::OptimizerPtr rules[] = {optim::sgd({.learning_rate = 0.05, .momentum = 0.9}),
                                       optim::adamw({.clip_norm = 0.5}), optim::lamb({})};
  for (const optim::OptimizerPtr& rule : rules) {
    const FitResult alone = make_trainer(nullptr, rule).fit(dataset, fit_options(2));
    for (int servers : {1, 2}) {
      ServerRoom room(servers, 1);
      room.as_workers_out_of_step([&](kvstore::Mode& mode) {
        const FitResult result = make_trainer(&mode, rule, 2).fit(dataset, fit_options(2));
        EXPECT_EQ(result.params_sha256, alone.params_sha256) << rule->name();
        EXPECT_EQ(result.train_loss, alone.train_loss);
        EXPECT_EQ(result.validation.loss, alone.validation.loss);
        ASSERT_TRUE(result.pushes);
        EXPECT_EQ(result.pushes->pushes, static_cast<std::uint64_t>(2 * kFreeSteps));
        EXPECT_EQ(result.pushes->most_stale, 0U);
      });
    }
  }
}

// Each server is lost in turn, the one that deals the tickets too. One worker has the bits of a
// process alone, so that whatever counts twice or not at all is seen.
TEST(OutOfStep, ALostServersBackupGoesOnWithoutLosingABit) {
  const auto dataset = testing::small_images(kFreeSamples);
  const optim::OptimizerPtr rules[] = {optim::adamw({.clip_norm = 0.5}), optim::lamb({})};
  for (const optim::OptimizerPtr& rule : rules) {
    const FitResult alone = make_trainer(nullptr, rule).fit(dataset, fit_options(2));
    for (int lost : {0, 1}) {
      ServerRoom room(2, 1, ServerRoom::Links::network, 1, 2);
      room.as_workers_out_of_step([&](kvstore::Mode& mode) {
        FitOptions options = fit_options(2);
        options.callbacks = {on_step([&](FitContext&, const StepEvent& event) {
          if (event.step == 3) room.end(lost);
        })};
        const FitResult result = make_trainer(&mode, rule).fit(dataset, options);
        EXPECT_EQ(result.params_sha256, alone.params_sha256) << rule->name() << ", server " << lost;
        EXPECT_EQ(result.pushes->pushes, static_cast<std::uint64_t>(2 * kFreeSteps));
      });
    }
  }
}

TEST(OutOfStep, ServersAreLostWhileWorkersPushAndEverySampleIsUsedOnce) {
  constexpr int kEpochs = 6, kWorkers = 3;
  const auto dataset = std::make_shared<CountingDataset>(testing::small_images(kFreeSamples));
  ServerRoom room(3, kWorkers, ServerRoom::Links::network, 1, 2);
  std::atomic<bool> is_lost = false;
  room.as_workers_out_of_step(
      [&](kvstore::Mode& mode) {
        FitOptions options = fit_options(kEpochs);
        options.callbacks = {on_step([&](FitContext&, const StepEvent& event) {
          if (event.step > 2 * kFreeSteps && !is_lost.exchange(true)) room.end(0);
        })};
        const auto rule = optim::sgd({.learning_rate = 0.02, .momentum = 0.9});
        const FitResult result = make_trainer(&mode, rule).fit(dataset, options);
        EXPECT_EQ(result.steps, kEpochs * kFreeSteps);
        const auto per_step = detail::TicketPlan::of(kFreeShards, kWorkers).per_step;
        EXPECT_EQ(result.pushes->pushes,
                  static_cast<std::uint64_t>(kEpochs * kFreeSteps * per_step));
        EXPECT_LE(result.pushes->most_ahead, 1U);
        EXPECT_LT(result.train_loss, 0.5 * result.history[0].metric("loss"));
      },
      {.bound = 1});
  EXPECT_TRUE(is_lost);
  expect_each_sample(*dataset, kEpochs, kWorkers);
}

TEST(OutOfStep, EverySampleOfAnEpochIsUsedOnceAndTheNetLearns) {
  constexpr int kEpochs = 8;
  for (int workers : {2, 3})
    for (const std::uint64_t bound : {std::uint64_t{1}, kvstore::OutOfStepOptions{}.bound}) {
      const auto dataset = std::make_shared<CountingDataset>(testing::small_images(kFreeSamples));
      ServerRoom room(2, workers);
      room.as_workers_out_of_step(
          [&](kvstore::Mode& mode) {
            const auto rule = optim::sgd({.learning_rate = 0.02, .momentum = 0.9});
            FitOptions options = fit_options(kEpochs);
            options.callbacks = {on_step([&](FitContext&, const StepEvent& event) {
              ASSERT_TRUE(event.steps_ahead);
              EXPECT_LE(*event.steps_ahead, bound);
            })};
            const FitResult result = make_trainer(&mode, rule).fit(dataset, options);
            EXPECT_EQ(result.steps, kEpochs * kFreeSteps);
            EXPECT_EQ(result.history.size(), static_cast<std::size_t>(kEpochs));
            EXPECT_LT(result.train_loss, 0.5 * result.history[0].metric("loss"));
            EXPECT_GT(result.validation.accuracy, 0.8);
            const auto per_step = detail::TicketPlan::of(kFreeShards, workers).per_step;
            EXPECT_EQ(result.pushes->pushes,
                      static_cast<std::uint64_t>(kEpochs * kFreeSteps * per_step));
            EXPECT_LE(result.pushes->most_ahead, bound);
          },
          {.bound = bound});
      expect_each_sample(*dataset, kEpochs, workers);
    }
}

// Worker 0 keeps its first ticket until the others have done all that they may have.
TEST(OutOfStep, NobodyIsFurtherAheadThanTheBound) {
  constexpr std::int64_t kPerStep = 3, kEnd = 30;
  constexpr std::uint64_t kBound = 2;
  constexpr std::int64_t kMayHave = (kBound + 1) * kPerStep - 1;  // besides the one that is kept
  ServerRoom room(1, 3);
  std::mutex mutex;
  std::condition_variable changed;
  bool is_kept = false;
  std::set<std::int64_t> done;
  std::uint64_t furthest = 0;
  room.as_workers_out_of_step(
      [&](kvstore::Mode& mode) {
        kvstore::OutOfStep& office = *mode.out_of_step();
        const bool keeps = mode.group().is_first();
        kvstore::FlatLayout layout;
        layout.add({.count = 10});
        kvstore::FlatState state(layout, optim::sgd({}), kvstore::SlotPlace::elsewhere);
        const auto synchronizer = office.alone().synchronize(state, 1);
        office.open(0, kEnd, kPerStep);
        const auto wait_for = [&](const auto& condition) {
          std::unique_lock lock(mutex);
          EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(30), condition));
        };
        if (!keeps) wait_for([&] { return is_kept; });
        while (true) {
          office.ask(false);
          const auto dealt = office.next();
          if (!dealt.ticket) break;
          if (*dealt.ticket == 0) {
            EXPECT_TRUE(keeps);
            {
              const std::lock_guard lock(mutex);
              is_kept = true;
            }
            changed.notify_all();
            wait_for([&] { return std::ssize(done) == kMayHave; });
          }
          {
            const std::lock_guard lock(mutex);
            EXPECT_TRUE(done.contains(0) || *dealt.ticket <= kMayHave) << *dealt.ticket;
            EXPECT_TRUE(done.insert(*dealt.ticket).second);
          }
          changed.notify_all();
          office.end(*dealt.ticket, 0.0, 0.0);
        }
        EXPECT_LE(office.seen().most_ahead, kBound);
        {
          const std::lock_guard lock(mutex);
          furthest = std::max(furthest, office.seen().most_ahead);
        }
        office.open(kEnd, kEnd, kPerStep);  // all are done
      },
      {.bound = kBound});
  EXPECT_EQ(std::ssize(done), kEnd);
  EXPECT_GT(furthest, 0U);
}

TEST(OutOfStep, ACheckpointIsAConsistentCutThatAnyNumberOfWorkersGoOnFrom) {
  const std::string folder = empty_folder("out_of_step_resume");
  const auto dataset = std::make_shared<CountingDataset>(testing::small_images(kFreeSamples));
  const auto fit = [&](kvstore::Mode& mode, std::int64_t epochs, bool resume) {
    FitOptions options = fit_options(epochs);
    if (mode.group().is_first()) options.checkpoints = folder;
    options.resume = resume && !options.checkpoints.empty();
    options.checkpoint_every = 3;
    return make_trainer(&mode, optim::adam({})).fit(dataset, options);
  };
  ServerRoom first(2, 2);
  std::string sha;
  first.as_workers_out_of_step([&](kvstore::Mode& mode) {
    const FitResult result = fit(mode, 2, false);
    if (mode.group().is_first()) sha = result.params_sha256;
  });
  expect_each_sample(*dataset, 2, 2);
  const std::optional<Checkpoint> cut = CheckpointStore(folder, {}).load_newest();
  ASSERT_TRUE(cut);
  EXPECT_NE(cut->training.find("\"consistent_cut\":true"), std::string::npos);
  EXPECT_EQ(io::tensors_sha256(cut->parameters), sha);
  EXPECT_EQ(cut->slots.size(), 2 * (cut->parameters.size() - 2));  // without running statistics
  ServerRoom second(1, 3);
  second.as_workers_out_of_step([&](kvstore::Mode& mode) {
    const FitResult result = fit(mode, 4, true);
    EXPECT_EQ(result.resumed_from, 2 * kFreeSteps);
    EXPECT_EQ(result.steps, 4 * kFreeSteps);
    EXPECT_EQ(result.history.size(), 4U);
  });
  std::filesystem::remove_all(folder);
}

TEST(OutOfStep, AWishToStopEndsTheRunOfAllAfterAWholeStepAndTheRestIsDoneLater) {
  const std::string folder = empty_folder("out_of_step_stop");
  const auto dataset = std::make_shared<CountingDataset>(testing::small_images(kFreeSamples));
  std::int64_t stopped_at = 0;
  for (const bool resume : {false, true}) {
    ServerRoom room(2, 2);
    std::atomic<bool> stop = false;
    room.as_workers_out_of_step([&](kvstore::Mode& mode) {
      FitOptions options = fit_options(3);
      if (mode.group().is_first()) options.checkpoints = folder;
      options.resume = resume && !options.checkpoints.empty();
      if (!resume && !mode.group().is_first()) options.stop = &stop;
      options.callbacks = {on_step([&](FitContext&, const StepEvent& event) {
        if (event.step >= 2 + kFreeSteps) stop = true;
      })};
      const FitResult result = make_trainer(&mode, optim::sgd({})).fit(dataset, options);
      EXPECT_EQ(result.stopped, !resume);
      EXPECT_EQ(result.stop_reason, resume ? "" : kInterrupted);
      if (!mode.group().is_first()) return;
      EXPECT_EQ(result.resumed_from, stopped_at);
      stopped_at = result.steps;
      EXPECT_TRUE(result.saved);
    });
  }
  EXPECT_EQ(stopped_at, 3 * kFreeSteps);
  for (std::int64_t i = kFreeBatch; i + 1 < kFreeSamples; ++i) {
    const int looks = dataset->count(i) - 3;
    EXPECT_TRUE(looks == 0 || looks == 2) << "sample " << i;  // of the second run's first ticket
  }
  std::filesystem::remove_all(folder);
}

TEST(OutOfStep, AGradientThatIsNotFiniteIsNotAppliedAndEndsTheRunOfAll) {
  const auto images = testing::small_images(kFreeSamples);
  const auto& arrays = dynamic_cast<const data::ArrayDataset&>(*images).arrays();
  arrays[0].data<float>()[50 * 64 + 3] = std::numeric_limits<float>::quiet_NaN();
  ServerRoom room(2, 3);
  room.as_workers_out_of_step([&](kvstore::Mode& mode) {
    FitOptions options = fit_options(2);
    EXPECT_EQ(
        message_of<Diverged>([&] { make_trainer(&mode, optim::sgd({})).fit(images, options); }),
        "train: sample 50 of the data set has a nan in field data0, at step 3");
  });
}

TEST(OutOfStep, SchedulesAndEarlyStoppingSeeStepsAsInAnyRun) {
  ServerRoom room(1, 2);
  room.as_workers_out_of_step([&](kvstore::Mode& mode) {
    FitOptions options = fit_options(6);
    options.schedule.rate = [](std::int64_t step) { return step < kFreeSteps ? 0.01 : 1e-9; };
    options.schedule.description = "falls";
    options.callbacks = {
        early_stopping({.metric = "loss", .maximize = false, .min_delta = 100.0}, 2),
        on_step([&](FitContext& run, const StepEvent& event) {
          EXPECT_EQ(run.step(), event.step);
          EXPECT_EQ(event.learning_rate, event.step <= kFreeSteps ? 0.01 : 1e-9);
          EXPECT_TRUE(event.staleness);
        })};
    const FitResult result =
        make_trainer(&mode, optim::sgd({})).fit(testing::small_images(kFreeSamples), options);
    EXPECT_EQ(result.steps, 3 * kFreeSteps);
    EXPECT_TRUE(result.stopped);
  });
}

}  // namespace
}  // namespace lockstep::train
