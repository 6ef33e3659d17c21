// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <barrier>
#include <cmath>
#include <functional>
#include <map>
#include <thread>

#include "lockstep/kvstore/allreduce.h"
#include "lockstep/nn/functional.h"
#include "lockstep/ops/ops.h"
#include "lockstep/optim/optimizers.h"
#include "lockstep/train/step_engine.h"
#include "tests/kvstore/as_ranks.h"
#include "tests/message.h"

namespace lockstep::train {
namespace {

using testing::message_of;

// Workers that are threads of this process: everybody lays down what he has, then each adds all of
// it by the definition.
class Table {
 public:
  explicit Table(int workers) : workers_(workers), everybody_(workers) {}

  class Seat final : public kvstore::Exchange {
   public:
    Seat(Table& table, int rank) : table_(table), rank_(rank) {}
    int rank() const override { return rank_; }
    int workers() const override { return table_.workers_; }
    bool waits_for_links() const override { return table_.workers_ % 2 == 1; }
    void sum(std::span<const Node> nodes, std::int64_t shards, std::size_t,
             std::span<float> result) override {
      table_.put([&] {
        for (const Node& node : nodes) table_.nodes_[{node.shards.lo, node.shards.hi}] = node.sum;
      });
      for (std::size_t i = 0; i < result.size(); ++i) result[i] = table_.value(0, shards, i);
      table_.clear();
    }
    void gather(std::span<const float> own, std::int64_t shards, std::span<float> all) override {
      const std::size_t row = all.size() / static_cast<std::size_t>(shards);
      const auto first = static_cast<std::size_t>(kvstore::range_of(*this, shards).lo);
      table_.put([&] { table_.rows_[first * row] = own; });
      for (const auto& [place, values] : table_.rows_)
        std::copy(values.begin(), values.end(), all.begin() + static_cast<std::ptrdiff_t>(place));
      table_.clear();
    }

    std::vector<std::string> share(const std::string& own) override {
      table_.put([&] { table_.shared_[rank_] = own; });
      std::vector<std::string> all;
      for (const auto& [rank, bytes] : table_.shared_) all.push_back(bytes);
      table_.clear();
      return all;
    }

   private:
    Table& table_;
    int rank_;
  };

 private:
  void put(const std::function<void()>& lay_down) {
    {
      const std::lock_guard lock(mutex_);
      lay_down();
    }
    everybody_.arrive_and_wait();
  }
  void clear() {
    everybody_.arrive_and_wait();
    {
      const std::lock_guard lock(mutex_);
      nodes_.clear();
      rows_.clear();
      shared_.clear();
    }
    everybody_.arrive_and_wait();
  }
  float value(std::int64_t lo, std::int64_t hi, std::size_t i) const {
    const auto node = nodes_.find({lo, hi});
    if (node != nodes_.end()) return node->second[i];
    const std::int64_t mid = tree_middle(lo, hi);
    return value(lo, mid, i) + value(mid, hi, i);
  }

  int workers_;
  std::barrier<> everybody_;
  std::mutex mutex_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::span<const float>> nodes_;
  std::map<std::size_t, std::span<const float>> rows_;
  std::map<int, std::string> shared_;
};

// Several buckets' worth of parameters, batch norm and dropout.
class Net final : public nn::Block {
 public:
  Net()
      : conv_(add_parameter("conv", {8, 3, 3, 3})),
        gamma_(add_parameter("gamma", {8}, {.init = nn::init::one()})),
        beta_(add_parameter("beta", {8}, {.init = nn::init::zero()})),
        mean_(add_parameter("mean", {8}, {.init = nn::init::zero(), .trainable = false})),
        var_(add_parameter("var", {8}, {.init = nn::init::one(), .trainable = false})),
        hidden_(add_parameter("hidden", {64, 8 * 6 * 6})),
        output_(add_parameter("output", {5, 64})) {}

  Tensor forward(const Tensor& x) override {
    const auto normed = nn::batch_norm(lockstep::conv(x, conv_.data(), {}, {.padding = {1}}),
                                       gamma_.data(), beta_.data(), mean_.data(), var_.data());
    mean_.update(normed.mean);
    var_.update(normed.var);
    const Tensor y = lockstep::dense(relu(normed.y), hidden_.data());
    return lockstep::dense(nn::dropout(relu(y), 0.25), output_.data());
  }

 private:
  nn::Parameter conv_, gamma_, beta_, mean_, var_, hidden_, output_;
};

constexpr std::int64_t kShards = 8, kShardBatch = 2;
constexpr int kSteps = 3;

data::Fields shard_batch(std::int64_t step, std::int64_t shard) {
  const RandomScope draws(
      random_key(9, static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(shard)));
  return {normal({kShardBatch, 3, 6, 6}), randint(0, 5, {kShardBatch})};
}

Tensor cross_entropy(const Tensor& output, const Tensor& label) {
  return softmax_cross_entropy(output, label);
}

struct Trained {
  std::vector<double> losses;
  std::string sha256;
  bool operator==(const Trained&) const = default;
};

Trained train(const optim::OptimizerPtr& rule, kvstore::Exchange* exchange, int threads) {
  const auto net = std::make_shared<Net>();
  net->initialize(nn::init::fan_in(), 3);
  const std::vector<TensorInfo> fields{{{kShardBatch, 3, 6, 6}, DType::float32, {}},
                                       {{kShardBatch}, DType::int64, {}}};
  EngineOptions options{.shards = kShards, .threads = threads, .seed = 3};
  options.exchange = exchange;
  options.bucket_bytes = 4096;
  StepEngine engine(net, cross_entropy, rule, fields, options);
  Trained result;
  for (int step = 0; step < kSteps; ++step) {
    std::vector<data::Fields> shards;
    for (std::int64_t s = engine.range().lo; s < engine.range().hi; ++s)
      shards.push_back(shard_batch(step, s));
    result.losses.push_back(engine.run(step, 0.05, shards).loss);
  }
  result.sha256 = engine.params_sha256();
  return result;
}

std::vector<Trained> train_workers(const optim::OptimizerPtr& rule, int workers, int threads) {
  Table table(workers);
  std::vector<Trained> results(static_cast<std::size_t>(workers));
  std::vector<std::jthread> everybody;
  for (int rank = 0; rank < workers; ++rank)
    everybody.emplace_back([&, rank] {
      Table::Seat seat(table, rank);
      results[static_cast<std::size_t>(rank)] = train(rule, &seat, threads);
    });
  everybody.clear();
  return results;
}

TEST(StepEngineWorkers, GiveTheBitsOfOneProcessOnAnyNumberOfWorkersAndThreads) {
  const optim::OptimizerPtr rules[] = {optim::sgd({.momentum = 0.9}),
                                       optim::adamw({.clip_norm = 0.5}), optim::lamb({})};
  for (const optim::OptimizerPtr& rule : rules) {
    const Trained alone = train(rule, nullptr, 1);
    for (int workers : {1, 2, 3, 8})
      for (int threads : {1, 2})
        for (const Trained& one : train_workers(rule, workers, threads))
          ASSERT_EQ(one, alone) << rule->name() << ", " << workers << " x " << threads;
  }
}

TEST(StepEngineWorkers, GiveTheSameBitsInTheExchangesOwnMemory) {
  const auto rule = optim::adamw({.clip_norm = 0.5});  // which looks at all sums at the end
  const Trained alone = train(rule, nullptr, 1);
  for (int workers : {2, 3, 4, 8})
    for (int threads : {1, 2})
      testing::as_ranks(workers, [&](comm::Communicator& communicator) {
        const auto exchange = kvstore::allreduce_exchange(communicator);
        const float* memory = exchange->memory(10).data();
        ASSERT_NE(memory, nullptr);
        EXPECT_EQ(exchange->memory(9).data(), memory);
        EXPECT_EQ(kvstore::allreduce_exchange(communicator)->memory(9).data(), memory);
        EXPECT_TRUE(exchange->memory(10 + static_cast<std::size_t>(exchange->rank())).empty());
        EXPECT_EQ(train(rule, exchange.get(), threads), alone) << workers << " x " << threads;
      });
}

TEST(StepEngineWorkers, NeedAShardEach) {
  Table table(9);
  Table::Seat seat(table, 0);
  EXPECT_EQ(message_of<InvalidArgument>([&] { train(optim::sgd({}), &seat, 1); }),
            "train: 9 workers cannot share 8 shards: each needs one");
}

TEST(StepEngineWorkers, NameTheShardWhoseDataIsBadByItsNumberInTheBatch) {
  Table table(2);
  Table::Seat seat(table, 1);
  const auto net = std::make_shared<Net>();
  net->initialize(nn::init::fan_in(), 3);
  EngineOptions options{.shards = kShards};
  options.exchange = &seat;
  StepEngine engine(net, cross_entropy, optim::sgd({}), data::infos_of(shard_batch(0, 0)), options);
  std::vector<data::Fields> shards;
  for (std::int64_t s = 4; s < 8; ++s) shards.push_back(shard_batch(0, s));
  shards[1][0].data<float>()[7] = std::nanf("");
  EXPECT_EQ(engine.find_bad_op(0, shards), "the data of shard 5");
}

class BrokenExchange final : public kvstore::Exchange {
 public:
  int rank() const override { return 0; }
  int workers() const override { return 2; }
  bool waits_for_links() const override { return false; }
  void sum(std::span<const Node>, std::int64_t, std::size_t, std::span<float>) override {
    throw IoError("worker 1 is gone");
  }
  void gather(std::span<const float>, std::int64_t, std::span<float>) override {
    throw IoError("worker 1 is gone");
  }
  std::vector<std::string> share(const std::string&) override { throw IoError("worker 1 is gone"); }
};

TEST(StepEngineWorkers, AFailedExchangeEndsTheStepWithItsError) {
  BrokenExchange broken;
  for (int threads : {1, 2})
    EXPECT_EQ(message_of<IoError>([&] { train(optim::sgd({}), &broken, threads); }),
              "worker 1 is gone");
}

}  // namespace
}  // namespace lockstep::train
