// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/trainer.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <thread>

#include "lockstep/base/file.h"
#include "lockstep/io/archive.h"
#include "lockstep/train/checkpoint.h"
#include "lockstep/train/detail/fit_state.h"
#include "tests/message.h"
#include "tests/seed.h"
#include "tests/temporary_folder.h"
#include "tests/train/small_run.h"

namespace lockstep::train {
namespace {

using testing::FileSizeLimit;
using testing::message_of;
using testing::run_small;
using testing::small_fit;
using testing::small_images;
using testing::small_net;
using testing::small_trainer;

std::string hash_of(const nn::Block& net) {
  std::vector<io::NamedTensor> tensors;
  for (const auto& [name, parameter] : net.parameters())
    tensors.emplace_back(name, parameter.data());
  return io::tensors_sha256(tensors);
}

// Whatever a run reports of its result.
void expect_same(const FitResult& got, const FitResult& expected) {
  EXPECT_EQ(got.params_sha256, expected.params_sha256);
  EXPECT_EQ(got.steps, expected.steps);
  EXPECT_EQ(got.train_loss, expected.train_loss);
  EXPECT_EQ(got.train_accuracy, expected.train_accuracy);
  EXPECT_EQ(got.validation.loss, expected.validation.loss);
  EXPECT_EQ(got.validation.accuracy, expected.validation.accuracy);
  ASSERT_EQ(got.history.size(), expected.history.size());
  for (std::size_t i = 0; i < got.history.size(); ++i) {
    EXPECT_EQ(got.history[i].step, expected.history[i].step);
    EXPECT_EQ(got.history[i].metrics, expected.history[i].metrics);
  }
}

CallbackPtr stop_at(std::atomic<bool>& flag, std::int64_t step) {
  return on_step([&flag, step](FitContext& context, const StepEvent&) {
    if (context.step() == step) flag = true;
  });
}

TEST(Trainer, LearnsAndLeavesItsResultInTheNet) {
  const nn::BlockPtr net = small_net();
  Trainer trainer = small_trainer(net, 2);
  const FitResult result = trainer.fit(small_images(100), small_fit(25));
  EXPECT_EQ(result.steps, 100);
  EXPECT_EQ(result.epochs, 25);
  EXPECT_FALSE(result.stopped);
  EXPECT_EQ(result.history.size(), 25U);
  EXPECT_GT(result.validation.accuracy, 0.8);
  EXPECT_LT(result.train_loss, 0.7);
  EXPECT_GT(result.samples_per_s, 0.0);
  EXPECT_EQ(result.params_sha256, hash_of(*net));
  const Evaluation again = trainer.evaluate(
      *small_images(41, 6), {.batch = 8, .threads = 0, .transform = data::to_tensor()});
  EXPECT_EQ(again.loss, result.validation.loss);
}

TEST(Trainer, GivesTheSameBitsForAnyNumberOfThreads) {
  const FitResult one = run_small(small_fit());
  for (int threads : {2, 3, 4, 8}) {
    FitOptions options = small_fit();
    options.loader_threads = threads % 3;
    options.prefetch = threads;
    expect_same(run_small(options, threads), one);
  }
  TrainerOptions other{.global_batch = 24, .shards = 8, .threads = 1, .seed = 4};
  Trainer trainer(small_net(), testing::cross_entropy(),
                  optim::sgd({.learning_rate = 0.05, .momentum = 0.9}), other);
  EXPECT_NE(trainer.fit(small_images(100), small_fit()).params_sha256, one.params_sha256);
}

TEST(Trainer, StopsAndResumesInTheMiddleOfAnEpochAsIfItHadNot) {
  const testing::TemporaryFolder folder("trainer_resume");
  const FitResult whole = run_small(small_fit());
  std::mt19937_64 random(testing::seed_of_this_run());
  for (int i = 0; i < 3; ++i) {
    const auto step = static_cast<std::int64_t>(1 + random() % 11);
    SCOPED_TRACE(fmt::format("stopped after step {}", step));
    FitOptions options = small_fit();
    std::atomic<bool> stop = false;
    options.stop = &stop;
    options.checkpoints = fmt::format("{}/{}", folder.path(), i);
    options.callbacks = {stop_at(stop, step)};
    const FitResult first = run_small(options, 2);
    EXPECT_TRUE(first.stopped);
    EXPECT_EQ(first.stop_reason, "interrupted");
    EXPECT_EQ(first.steps, step);
    EXPECT_EQ(first.checkpoint, fmt::format("{}/step-{:08}.ckpt", options.checkpoints, step));
    stop = false;
    options.callbacks.clear();
    options.resume = true;
    const FitResult second = run_small(options, 3);
    EXPECT_EQ(second.resumed_from, step);
    expect_same(second, whole);
    const FitResult third = run_small(options);
    EXPECT_EQ(third.resumed_from, whole.steps);
    expect_same(third, whole);
  }
}

// A set that asks a run to stop when one of its samples is read.
class StoppingSet final : public data::Dataset {
 public:
  StoppingSet(data::DatasetPtr set, std::atomic<bool>& stop) : set_(std::move(set)), stop_(stop) {}
  std::int64_t size() const override { return set_->size(); }
  data::Fields sample(std::int64_t index) const override {
    if (index == 2) stop_ = true;
    return set_->sample(index);
  }

 private:
  data::DatasetPtr set_;
  std::atomic<bool>& stop_;
};

TEST(Trainer, AnInterruptedEvaluationIsMadeWhenTheRunIsResumed) {
  const testing::TemporaryFolder folder("trainer_evaluation");
  for (const std::int64_t every : {4, 100}) {
    FitOptions options = small_fit(2);
    options.evaluate_every = every;
    const FitResult whole = run_small(options);
    std::atomic<bool> stop = false;
    FitOptions first = options;
    first.checkpoints = fmt::format("{}/{}", folder.path(), every);
    first.stop = &stop;
    first.validation = std::make_shared<StoppingSet>(options.validation, stop);
    const FitResult cut = run_small(first);
    EXPECT_EQ(cut.steps, std::min<std::int64_t>(every, 8));
    EXPECT_TRUE(cut.stopped);
    EXPECT_EQ(cut.stop_reason, "interrupted");
    EXPECT_TRUE(cut.history.empty());
    options.checkpoints = first.checkpoints;
    options.resume = true;
    expect_same(run_small(options), whole);
    EXPECT_EQ(read_checkpoint(cut.checkpoint).metric, whole.history[0].metric("accuracy"));
  }
}

TEST(Trainer, TakesTheCheckpointBeforeADamagedOne) {
  const testing::TemporaryFolder folder("trainer_damage");
  FitOptions options = small_fit();
  options.checkpoints = folder.path();
  options.checkpoint_every = 2;
  const FitResult whole = run_small(options);
  std::string bytes = read_file(whole.checkpoint);
  bytes[bytes.size() / 2] ^= 4;
  write_file(whole.checkpoint, bytes);
  options.resume = true;
  const FitResult again = run_small(options);
  EXPECT_EQ(again.resumed_from, 10);
  ASSERT_EQ(testing::other_warnings(again).size(), 1U);
  EXPECT_EQ(testing::other_warnings(again)[0], whole.checkpoint +
                                                   ": its checksum does not fit its contents; "
                                                   "taking the checkpoint before it");
  expect_same(again, whole);
}

TEST(Trainer, NamesNoDamagedFileAsItsNewestCheckpoint) {
  const testing::TemporaryFolder folder("trainer_damaged_later");
  FitOptions options = small_fit();
  options.checkpoints = folder.path();
  const FitResult whole = run_small(options);
  write_file(whole.checkpoint, "damaged");
  options.resume = true;
  std::atomic<bool> stop = false;
  options.stop = &stop;
  options.callbacks = {on_step([&](FitContext&, const StepEvent&) { stop = true; })};
  EXPECT_EQ(run_small(options).checkpoint, folder.path() + "/step-00000009.ckpt");
}

TEST(Trainer, EpochsThatCannotBeCountedAreRefused) {
  FitOptions options = small_fit(std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(message_of<InvalidArgument>([&] { run_small(options); }),
            "train: 9223372036854775807 epochs of 4 steps are too many to count");
}

// Until the file is there, which a thread in the background writes.
void wait_for(const std::string& path) {
  for (int i = 0; i < 1000 && !std::filesystem::exists(path); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

TEST(Trainer, AFullDiskIsAWarningAndTheLastGoodCheckpointStays) {
  const testing::TemporaryFolder folder("trainer_full_disk");
  FitOptions options = small_fit();
  options.checkpoints = folder.path();
  std::unique_ptr<FileSizeLimit> limit;
  options.callbacks = {on_step([&](FitContext& context, const StepEvent&) {
    if (context.step() != 6) return;
    wait_for(folder.path() + "/step-00000004.ckpt");
    limit = std::make_unique<FileSizeLimit>(512);
  })};
  const FitResult result = run_small(options);
  limit.reset();
  ASSERT_EQ(testing::other_warnings(result).size(), 2U);
  EXPECT_EQ(testing::other_warnings(result)[0],
            fmt::format("checkpoint of step 8 is not written: {}/step-00000008.ckpt: cannot write: "
                        "File too large",
                        folder.path()));
  EXPECT_EQ(result.checkpoint, folder.path() + "/step-00000004.ckpt");
  EXPECT_FALSE(result.saved);
  options.resume = true;
  options.callbacks.clear();
  const FitResult again = run_small(options);
  expect_same(again, result);
  EXPECT_TRUE(again.saved);
}

TEST(Trainer, KeepsTheBestCheckpoint) {
  const testing::TemporaryFolder folder("trainer_best");
  FitOptions options = small_fit(8);
  options.checkpoints = folder.path();
  options.keep_last = 1;
  options.monitor = Monitor{.metric = "loss", .maximize = false};
  const FitResult result = run_small(options);
  std::int64_t best = result.history[0].step;
  double least = result.history[0].metric("loss");
  for (const EvaluationRecord& record : result.history)
    if (record.metric("loss") < least) best = record.step, least = record.metric("loss");
  const auto files = list_checkpoints(folder.path());
  EXPECT_EQ(files.back().step, 32);
  EXPECT_EQ(files.front().step, best);
  EXPECT_EQ(read_checkpoint(files.back().path).best_step, best);
  EXPECT_EQ(read_checkpoint(files.back().path).best_metric, least);
  EXPECT_EQ(read_checkpoint(files.back().path).params_sha256, result.params_sha256);
}

TEST(Trainer, ReportsAndWatchesMetricsByName) {
  const testing::TemporaryFolder folder("trainer_metrics");
  FitOptions options = small_fit(2);
  options.checkpoints = folder.path();
  options.metrics = {std::make_shared<nn::TopKAccuracy>(2)};
  options.monitor = Monitor{.metric = "no such"};
  EXPECT_EQ(message_of<NotFound>([&] { run_small(options); }),
            "train: evaluation has no metric named 'no such', it has loss, accuracy, " +
                options.metrics[0]->name());
  options.monitor = Monitor{.metric = options.metrics[0]->name()};
  const FitResult result = run_small(options);
  EXPECT_EQ(result.history[1].metric(options.monitor->metric), result.validation.metrics[0].second);
}

TEST(Trainer, StepsMayBeCountedInsteadOfEpochs) {
  FitOptions options = small_fit();
  options.steps = 6;
  options.evaluate_every = 5;
  std::vector<double> rates;
  options.schedule = optim::factor(0.1, 2, 0.5);
  options.callbacks = {
      on_step([&](FitContext&, const StepEvent& event) { rates.push_back(event.learning_rate); })};
  const FitResult result = run_small(options);
  EXPECT_EQ(result.steps, 6);
  EXPECT_EQ(result.epochs, 1);
  ASSERT_EQ(result.history.size(), 2U);
  EXPECT_EQ(result.history[0].step, 5);
  EXPECT_EQ(result.history[1].step, 6);
  EXPECT_EQ(rates, (std::vector<double>{0.1, 0.1, 0.05, 0.05, 0.025, 0.025}));
}

// Writes down what it is told.
class Log final : public Callback {
 public:
  void on_train_begin(FitContext& context) override {
    add("begin {}/{}", context.step(), context.total_steps());
  }
  void on_step_end(FitContext&, const StepEvent& event) override {
    add("step {} of {}", event.step, event.epoch);
  }
  void on_epoch_end(FitContext&, const EpochEvent& event) override { add("epoch {}", event.epoch); }
  void on_evaluation(FitContext& context, const Evaluation& evaluation) override {
    add("evaluation {} of {}", context.history().size(), evaluation.predictions.size());
  }
  void on_train_end(FitContext&, const FitResult& result) override { add("end {}", result.steps); }
  bool wants_predictions() const override { return true; }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  template <class... A>
  void add(fmt::format_string<A...> format, A&&... args) {
    lines_.push_back(fmt::format(format, std::forward<A>(args)...));
  }
  std::vector<std::string> lines_;
};

TEST(Trainer, TellsCallbacksWhatHappens) {
  const auto log = std::make_shared<Log>();
  FitOptions options = small_fit();
  options.steps = 5;
  options.callbacks = {log};
  run_small(options);
  EXPECT_EQ(log->lines(),
            (std::vector<std::string>{"begin 0/5", "step 1 of 0", "step 2 of 0", "step 3 of 0",
                                      "step 4 of 0", "epoch 0", "evaluation 1 of 41", "step 5 of 1",
                                      "evaluation 2 of 41", "end 5"}));
}

TEST(Trainer, StopsEarlyAndStaysStopped) {
  const testing::TemporaryFolder folder("trainer_early");
  FitOptions options = small_fit(50);
  options.checkpoints = folder.path();
  options.callbacks = {early_stopping({.metric = "loss", .maximize = false, .min_delta = 10.0}, 2)};
  const FitResult result = run_small(options);
  EXPECT_TRUE(result.stopped);
  EXPECT_EQ(result.stop_reason, "loss has not become better in 2 evaluations");
  EXPECT_EQ(result.steps, 12);
  options.resume = true;
  expect_same(run_small(options), result);
}

TEST(Trainer, SavesTheBestModel) {
  const testing::TemporaryFolder folder("trainer_best_model");
  const std::string path = folder.path() + "/best.params";
  std::string best_hash;
  double best = std::numeric_limits<double>::infinity();
  FitOptions options = small_fit(6);
  options.callbacks = {best_model(path, {.metric = "loss", .maximize = false}),
                       on_evaluation([&](FitContext& context, const Evaluation& evaluation) {
                         if (!(evaluation.loss < best)) return;
                         best = evaluation.loss;
                         best_hash = hash_of(context.net());
                       })};
  run_small(options);
  const nn::BlockPtr net = small_net();
  net->load(path);
  EXPECT_EQ(hash_of(*net), best_hash);
}

TEST(Trainer, ANanNamesTheStepAndTheOpAndKeepsTheLastGoodCheckpoint) {
  const testing::TemporaryFolder folder("trainer_nan");
  const nn::BlockPtr net = nn::sequential(nn::dense(testing::kClasses));
  // Finite until the data's sixth step, where the logarithm meets a negative number.
  Tensor data = Tensor::full({40, 3}, 1.0);
  data.data<float>()[3 * 22] = -1.0f;
  const auto dataset =
      std::make_shared<data::ArrayDataset>(data::Fields{data, Tensor::zeros({40}, DType::int64)});
  const nn::BlockPtr with_log =
      nn::sequential(nn::lambda([](const Tensor& x) { return log(x); }, "log"), net);
  Trainer trainer(with_log, testing::cross_entropy(), optim::sgd(),
                  {.global_batch = 4, .shards = 2, .threads = 2, .seed = 1});
  FitOptions options;
  options.sampler = data::sequential_sampler(40);
  options.checkpoints = folder.path();
  options.checkpoint_every = 2;
  const std::string message = message_of<Diverged>([&] { trainer.fit(dataset, options); });
  EXPECT_EQ(message,
            "train: the loss is nan at step 6: op log is not finite first; try a lower "
            "learning rate; the last good checkpoint is " +
                folder.path() + "/step-00000004.ckpt");
  EXPECT_EQ(read_checkpoint(folder.path() + "/step-00000004.ckpt").step, 4);
}

TEST(Trainer, ComputesInBfloat16WhenAsked) {
  TrainerOptions options{.global_batch = 24, .shards = 8, .threads = 2, .seed = 3};
  options.compile.compute = DType::bfloat16;
  const nn::BlockPtr net = small_net();
  Trainer trainer(net, testing::cross_entropy(),
                  optim::sgd({.learning_rate = 0.05, .momentum = 0.9}), options);
  const FitResult result = trainer.fit(small_images(100), small_fit(25));
  EXPECT_GT(result.validation.accuracy, 0.8);
  EXPECT_NE(result.params_sha256, run_small(small_fit(25)).params_sha256);
  for (const auto& [name, parameter] : net->parameters())
    EXPECT_EQ(parameter.dtype(), DType::float32);
}

TEST(Trainer, RefusesBatchesThatCannotBeDealt) {
  const auto make = [](const TrainerOptions& options) {
    return message_of(
        [&] { Trainer(small_net(), testing::cross_entropy(), optim::sgd(), options); });
  };
  EXPECT_EQ(make({.global_batch = 100, .shards = 8}),
            "train: a global batch of 100 cannot be dealt into 8 shards: choose a multiple");
  EXPECT_EQ(make({.global_batch = 0}), "train: the global batch is 0, expected 1 or more");
  EXPECT_EQ(make({.shards = -1}), "train: at least 1 shard is needed, got -1");
  EXPECT_EQ(make({.threads = 0}), "train: at least 1 thread is needed, got 0");
  EXPECT_EQ(message_of([] { Trainer(nullptr, testing::cross_entropy(), optim::sgd()); }),
            "train: a trainer needs a net, a loss and an optimiser");
  EXPECT_EQ(message_of([] { small_trainer(small_net()).fit(small_images(20), small_fit()); }),
            "train: the set has 20 samples, a global batch needs 24");
  EXPECT_EQ(message_of([] { small_trainer(small_net()).fit(nullptr, small_fit()); }),
            "train: there is no data set");
}

TEST(Trainer, RefusesAFolderOfAnotherRun) {
  const testing::TemporaryFolder folder("trainer_other");
  FitOptions options = small_fit(1);
  options.checkpoints = folder.path();
  options.configuration = R"({"recipe": "small"})";
  run_small(options);
  EXPECT_EQ(message_of([&] { run_small(options); }),
            folder.path() +
                ": has checkpoints already, the newest of step 4: resume, or choose "
                "another folder");
  options.resume = true;
  options.configuration = R"({"recipe": "large"})";
  const std::string message = message_of([&] {
    Trainer(small_net(), testing::cross_entropy(),
            optim::sgd({.learning_rate = 0.05, .momentum = 0.9}),
            {.global_batch = 16, .shards = 8, .threads = 1, .seed = 3})
        .fit(small_images(100), options);
  });
  EXPECT_EQ(message, folder.path() +
                         ": is of a run with another configuration: global_batch was "
                         "24, now 16; recipe was \"small\", now \"large\"");
}

TEST(Trainer, GoesOnWithACheckpointThatLacksNewerKeys) {
  const testing::TemporaryFolder folder("trainer_older");
  FitOptions options = small_fit(1);
  options.checkpoints = folder.path();
  options.configuration = R"({"recipe": "small"})";
  const std::string first = run_small(options).params_sha256;
  options.resume = true;
  options.older_configuration = R"({"algorithm": "tree"})";
  options.configuration = R"({"recipe": "small", "algorithm": "tree"})";
  EXPECT_EQ(run_small(options).params_sha256, first);
  options.configuration = R"({"recipe": "small", "algorithm": "ring"})";
  EXPECT_EQ(message_of([&] { run_small(options); }),
            folder.path() +
                ": is of a run with another configuration: algorithm was \"tree\", now \"ring\"");
}

TEST(FitState, AnOlderCheckpointHasCanonicalSums) {
  detail::check_configuration("run", "{}", R"({"sums": "canonical"})");
  EXPECT_EQ(message_of([] { detail::check_configuration("run", "{}", R"({"sums": "ring"})"); }),
            "run: is of a run with another configuration: sums was \"canonical\", now \"ring\"");
}

TEST(Trainer, ResumingWithoutACheckpointStartsAtTheBeginning) {
  const testing::TemporaryFolder folder("trainer_no_checkpoint");
  FitOptions options = small_fit(1);
  options.checkpoints = folder.path() + "/none";
  options.resume = true;
  EXPECT_EQ(run_small(options).params_sha256, run_small(small_fit(1)).params_sha256);
}

}  // namespace
}  // namespace lockstep::train
