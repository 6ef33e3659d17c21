// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>

#include "lockstep/data/subset.h"
#include "lockstep/data/text/sequences.h"
#include "lockstep/kvstore/allreduce.h"
#include "lockstep/nn/layers.h"
#include "lockstep/nn/loss.h"
#include "lockstep/ops/ops.h"
#include "lockstep/optim/optimizers.h"
#include "lockstep/train/trainer.h"
#include "tests/kvstore/as_ranks.h"
#include "tests/message.h"
#include "tests/temporary_folder.h"

namespace lockstep::train {
namespace {

using testing::message_of;

constexpr std::int64_t kWords = 20;
constexpr std::int64_t kKindsOfText = 3;

// Texts of any length: words, their running statistics, their mean, a class.
class TextNet final : public nn::Block {
 public:
  TextNet()
      : words_(add_child("words", nn::embedding(kWords, 8))),
        norm_(add_child("norm", nn::batch_norm())),
        hidden_(add_child("hidden", nn::dense(16, {.activation = "relu"}))),
        output_(add_child("output", nn::dense(kKindsOfText))) {}
  Tensor forward(const Tensor& x) override {
    const Tensor words = transpose((*words_)(x), {0, 2, 1});
    return (*output_)(nn::dropout((*hidden_)(mean((*norm_)(words), {2})), 0.1));
  }

 private:
  nn::BlockPtr words_, norm_, hidden_, output_;
};

nn::BlockPtr text_net() {
  const auto net = std::make_shared<TextNet>();
  net->initialize(nn::init::fan_in(), 1);
  return net;
}

const std::vector<std::int64_t> kBounds{4, 7, 12, 16};

// Texts of 1 to 16 words; what class they have is told by how many words are even.
std::shared_ptr<data::TextClassification> texts(std::int64_t count) {
  std::vector<data::TokenNumbers> texts;
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < count; ++i) {
    data::TokenNumbers text;
    for (std::int64_t k = 0; k < 1 + (i * 5) % 16; ++k) text.push_back((i * 3 + k * k) % kWords);
    labels.push_back(i % kKindsOfText);
    texts.push_back(std::move(text));
  }
  return std::make_shared<data::TextClassification>(
      texts, labels, data::TextOptions{.bounds = kBounds, .padding = 0});
}

Tensor draw_words(std::int64_t count, std::int64_t length, std::uint32_t seed) {
  const RandomScope draws(random_key(4, seed, static_cast<std::uint32_t>(length)));
  return randint(0, kWords, {count, length});
}

data::Fields shard(std::int64_t samples, std::int64_t length, std::uint32_t seed) {
  const RandomScope draws(random_key(5, seed));
  return {draw_words(samples, length, seed), randint(0, kKindsOfText, {samples})};
}

std::vector<data::Fields> shards(std::int64_t length, std::uint32_t seed) {
  return {shard(3, length, 2 * seed), shard(3, length, 2 * seed + 1)};
}

StepEngine text_engine(const nn::BlockPtr& net, std::int64_t length, std::size_t plans = 32,
                       int threads = 1) {
  EngineOptions options{.shards = 2, .threads = threads, .seed = 3};
  options.compile.plans = plans;
  return {net, nn::SoftmaxCrossEntropyLoss(), optim::sgd({.learning_rate = 0.1}),
          data::infos_of(shard(3, length, 0)), options};
}

TEST(StepEngineShapes, AreTheBitsOfAnEngineForEachShape) {
  const std::int64_t lengths[] = {5, 9, 5, 3, 9, 16, 3};
  for (const int threads : {1, 2}) {
    const nn::BlockPtr net = text_net(), expected = text_net();
    StepEngine engine = text_engine(net, lengths[0], 2, threads);
    for (std::uint32_t step = 0; step < std::size(lengths); ++step) {
      StepEngine alone = text_engine(expected, lengths[step]);
      const double loss = alone.run(step, 0.1, shards(lengths[step], step)).loss;
      alone.store(*expected);
      EXPECT_EQ(engine.run(step, 0.1, shards(lengths[step], step)).loss, loss);
      EXPECT_EQ(engine.params_sha256(), alone.params_sha256()) << "after step " << step;
      EXPECT_LE(engine.plans(), 2U);
    }
  }
}

TEST(StepEngineShapes, OfOneStepAreOne) {
  const nn::BlockPtr net = text_net();
  StepEngine engine = text_engine(net, 5);
  EXPECT_EQ(message_of([&] {
              engine.run(0, 0.1, std::vector<data::Fields>{shard(3, 5, 0), shard(3, 6, 0)});
            }),
            "train: field 0 of shard 1 is int64[3, 6], of shard 0 int64[3, 5]: all shards of a "
            "step have one shape (bucket_sampler with the global batch as its batch)");
  EXPECT_TRUE(engine.run(0, 0.1, shards(6, 1)).finite);
}

std::int64_t live_bytes() { return memory_stats().live_bytes; }

// Arenas are shared, weights are there once, and plans are dropped.
TEST(StepEngineShapes, TakeTheMemoryOfTheLargest) {
  constexpr std::int64_t kLongest = 150;
  constexpr std::size_t kPlans = 4;
  std::int64_t largest = 0;
  {
    const std::int64_t before = live_bytes();
    const nn::BlockPtr net = text_net();
    StepEngine engine = text_engine(net, kLongest, kPlans);
    engine.run(0, 0.1, shards(kLongest, 0));
    largest = live_bytes() - before;
  }
  const std::int64_t before = live_bytes();
  const nn::BlockPtr net = text_net();
  StepEngine engine = text_engine(net, 1, kPlans);
  for (std::int64_t length = 1; length <= kLongest; ++length)
    engine.run(length, 0.1, shards(length, static_cast<std::uint32_t>(length)));
  EXPECT_EQ(engine.plans(), kPlans);
  EXPECT_LE(live_bytes() - before, largest + largest / 2);
}

FitOptions bucket_fit(const data::TextClassification& set, std::int64_t epochs) {
  FitOptions options;
  options.epochs = epochs;
  options.sampler = data::bucket_sampler(set.lengths(), kBounds, 8, 6);
  return options;
}

TrainerOptions bucket_options(int threads, kvstore::Mode* mode = nullptr) {
  return {.global_batch = 8, .shards = 4, .threads = threads, .seed = 9, .mode = mode};
}

// LAMB's norms are summed in the order in which parameters lie in memory.
Trainer bucket_trainer(const nn::BlockPtr& net, const TrainerOptions& options) {
  return {net, nn::SoftmaxCrossEntropyLoss(), optim::lamb(), options};
}

FitResult fit_buckets(int threads, kvstore::Mode* mode = nullptr) {
  const auto set = texts(120);
  Trainer trainer = bucket_trainer(text_net(), bucket_options(threads, mode));
  return trainer.fit(set, bucket_fit(*set, 2));
}

TEST(TrainerShapes, GiveTheSameBitsOnThreadsAndWorkers) {
  const FitResult alone = fit_buckets(1);
  EXPECT_GT(alone.steps, 20);
  EXPECT_EQ(fit_buckets(2).params_sha256, alone.params_sha256);
  std::vector<FitResult> results(2);
  testing::as_ranks(2, [&](comm::Communicator& communicator) {
    const auto mode = kvstore::allreduce_mode(communicator);
    results[static_cast<std::size_t>(communicator.rank())] = fit_buckets(1, mode.get());
  });
  for (const FitResult& result : results) EXPECT_EQ(result.params_sha256, alone.params_sha256);
}

TEST(TrainerShapes, AreResumedToTheSameBitsWhereverTheRunWasStopped) {
  const auto set = texts(120);
  const std::string whole = fit_buckets(1).params_sha256;
  for (const std::int64_t stop : {1, 2, 5}) {
    const testing::TemporaryFolder folder("shapes");
    FitOptions options = bucket_fit(*set, 2);
    options.checkpoints = folder.path();
    options.checkpoint_every = 1;
    options.callbacks = {on_step([&](FitContext& context, const StepEvent& event) {
      if (event.step == stop) context.request_stop("enough");
    })};
    bucket_trainer(text_net(), bucket_options(1)).fit(set, options);
    options.callbacks = {};
    options.resume = true;
    const FitResult result = bucket_trainer(text_net(), bucket_options(1)).fit(set, options);
    EXPECT_EQ(result.resumed_from, stop);
    EXPECT_EQ(result.params_sha256, whole) << "stopped after step " << stop;
  }
}

// Four texts of each length, one length after the other, `lengths` again and again.
class Ragged final : public data::Dataset {
 public:
  Ragged(std::int64_t count, std::vector<std::int64_t> lengths)
      : count_(count), lengths_(std::move(lengths)) {}
  std::int64_t size() const override { return count_; }
  data::Fields sample(std::int64_t i) const override {
    const auto place = static_cast<std::size_t>(i / 4) % lengths_.size();
    const Tensor words = draw_words(1, lengths_[place], static_cast<std::uint32_t>(i));
    return {reshape(words, {-1}),
            Tensor::full({}, static_cast<double>(i % kKindsOfText), DType::int64)};
  }

 private:
  std::int64_t count_;
  std::vector<std::int64_t> lengths_;
};

TEST(EvaluatorShapes, OfBatchesOfOneSetMayDiffer) {
  const auto set = std::make_shared<Ragged>(50, std::vector<std::int64_t>{3, 5, 3, 4, 5});
  const nn::BlockPtr net = text_net();
  const auto evaluate = [&](const data::Dataset& samples, int threads) {
    return Evaluator(net, nn::SoftmaxCrossEntropyLoss())
        .run(samples, {.batch = 4, .threads = threads, .keep_predictions = true});
  };
  double loss = 0.0;
  std::vector<std::int64_t> predictions;
  for (std::int64_t first = 0; first < 50; first += 4) {
    const std::int64_t end = std::min<std::int64_t>(first + 4, 50);
    const Evaluation one = evaluate(*data::slice(set, first, end), 1);
    loss += one.loss * static_cast<double>(end - first);
    predictions.insert(predictions.end(), one.predictions.begin(), one.predictions.end());
  }
  for (const int threads : {1, 2}) {
    const Evaluation all = evaluate(*set, threads);
    EXPECT_TRUE(all.whole);
    EXPECT_EQ(all.loss, loss / 50.0) << threads << " threads";
    EXPECT_EQ(all.predictions, predictions) << threads << " threads";
  }
}

// Trained in order, in two shards of four.
FitResult fit_ragged(std::vector<std::int64_t> lengths, std::int64_t& steps,
                     kvstore::Mode* mode = nullptr) {
  Trainer trainer(text_net(), nn::SoftmaxCrossEntropyLoss(), optim::sgd({}),
                  {.global_batch = 8, .shards = 2, .mode = mode});
  FitOptions options;
  options.sampler = data::sequential_sampler(16);
  options.callbacks = {on_step([&](FitContext&, const StepEvent& event) { steps = event.step; })};
  return trainer.fit(std::make_shared<Ragged>(16, std::move(lengths)), options);
}

TEST(TrainerShapes, ThatDifferWithinAStepAreNoSamplesFault) {
  std::int64_t steps = 0;
  EXPECT_EQ(message_of([&] {
              fit_ragged({5, 5, 5, 6}, steps);
            }),
            "train: field 0 of shard 1 is int64[4, 6], of shard 0 int64[4, 5]: all shards of a "
            "step have one shape (bucket_sampler with the global batch as its batch)");
  EXPECT_EQ(steps, 1);
}

TEST(TrainerShapes, ThatDifferBetweenWorkersAreRefusedByAllInTheSameWords) {
  for (const bool at_once : {false, true}) {
    testing::as_ranks(2, [&](comm::Communicator& communicator) {
      const auto mode = kvstore::allreduce_mode(communicator);
      std::int64_t steps = 0;
      const std::vector<std::int64_t> lengths{5, at_once ? 6 : 5, 5, 6};
      EXPECT_EQ(message_of([&] { fit_ragged(lengths, steps, mode.get()); }),
                "train: the shards of worker 1 are int64[4, 6], int64[4], of worker 0 int64[4, 5], "
                "int64[4]: all shards of a step have one shape (bucket_sampler with the global "
                "batch as its batch)");
      EXPECT_EQ(steps, at_once ? 0 : 1);
    });
  }
}

// Of the last batch, which is smaller, only what is computed on the way.
TEST(EvaluatorShapes, HaveOneCopyOfTheParameters) {
  constexpr std::int64_t kWide = 1 << 18;
  const nn::BlockPtr net = nn::sequential(nn::dense(kWide, {.inputs = 4}), nn::dense(kKindsOfText));
  net->initialize();
  const RandomScope draws(random_key(1));
  const data::ArrayDataset set({normal({20, 4}), randint(0, kKindsOfText, {20})});
  net->complete_shapes({{{1, 4}, DType::float32, {}}});
  std::int64_t parameters = 0;
  for (const auto& [name, parameter] : net->parameters())
    parameters += static_cast<std::int64_t>(parameter.data().info().bytes());
  const auto taken = [&](std::vector<std::int64_t> batches) {
    const std::int64_t before = live_bytes();
    Evaluator evaluator(net, nn::SoftmaxCrossEntropyLoss());
    double loss = 0.0;
    for (const std::int64_t batch : batches) {
      const double its = evaluator.run(set, {.batch = batch}).loss;
      EXPECT_NEAR(its, loss == 0.0 ? its : loss, 1e-5);
      loss = its;
    }
    return live_bytes() - before;
  };
  const std::int64_t one = taken({20});
  EXPECT_LT(taken({20, 9, 7, 6, 3}) - one, parameters / 2);
}

}  // namespace
}  // namespace lockstep::train
