// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/step_engine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lockstep/nn/functional.h"
#include "lockstep/ops/ops.h"
#include "tests/message.h"
#include "tests/train/step_net.h"

namespace lockstep::train {
namespace {

using testing::mean_cross_entropy, testing::message_of, testing::Trained;

// Gradient descent with momentum, as short as it can be.
class PlainSgd final : public optim::Optimizer {
 public:
  explicit PlainSgd(optim::CommonOptions options = {}, bool measured = false)
      : Optimizer(options), measured_(measured) {}
  std::string_view name() const override { return "plain"; }
  int slots() const override { return 1; }
  bool measures() const override { return measured_; }
  optim::PieceNorms measure(const optim::UpdateContext&, const optim::Piece& piece) const override {
    optim::PieceNorms norms;
    for (float w : piece.weight) norms.weight += static_cast<double>(w) * w;
    for (float g : piece.gradient) norms.direction += static_cast<double>(g) * g;
    return norms;
  }
  void update(const optim::UpdateContext& context, const optim::Piece& piece) const override {
    const double trust = measured_ ? context.weight_norm / (context.direction_norm + 1e-6) : 1.0;
    const auto rate = static_cast<float>(context.learning_rate * trust);
    const auto scale = static_cast<float>(context.gradient_scale);
    for (std::size_t i = 0; i < piece.weight.size(); ++i) {
      piece.slots[0][i] = 0.9f * piece.slots[0][i] + scale * piece.gradient[i];
      piece.weight[i] -= rate * piece.slots[0][i];
    }
  }
  std::string description() const override { return ""; }

 private:
  bool measured_;
};

// A convolution with batch norm and dropout, then a dense layer.
class Net final : public nn::Block {
 public:
  Net()
      : conv_(add_parameter("conv", {20, 3, 3, 3})),
        gamma_(add_parameter("gamma", {20}, {.init = nn::init::one()})),
        beta_(add_parameter("beta", {20}, {.init = nn::init::zero()})),
        mean_(add_parameter("mean", {20}, {.init = nn::init::zero(), .trainable = false})),
        var_(add_parameter("var", {20}, {.init = nn::init::one(), .trainable = false})),
        dense_(add_parameter("dense", {5, 20 * 8 * 8})) {}

  Tensor forward(const Tensor& x) override {
    const auto normed = nn::batch_norm(lockstep::conv(x, conv_.data(), {}, {.padding = {1}}),
                                       gamma_.data(), beta_.data(), mean_.data(), var_.data());
    mean_.update(normed.mean);
    var_.update(normed.var);
    const Tensor y = nn::dropout(relu(normed.y), 0.25);
    return lockstep::dense(y, dense_.data());
  }

 private:
  nn::Parameter conv_, gamma_, beta_, mean_, var_, dense_;
};

constexpr std::int64_t kEngineShards = 8, kEngineShardBatch = 3;

std::vector<TensorInfo> fields() {
  return {{{kEngineShardBatch, 3, 8, 8}, DType::float32, {}},
          {{kEngineShardBatch}, DType::int64, {}}};
}

std::vector<data::Fields> engine_batch(std::int64_t step, std::int64_t shards = kEngineShards) {
  std::vector<data::Fields> result;
  for (std::int64_t s = 0; s < shards; ++s) {
    const RandomScope draws(
        random_key(99, static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(s)));
    result.push_back({normal({kEngineShardBatch, 3, 8, 8}), randint(0, 5, {kEngineShardBatch})});
  }
  return result;
}

Trained train_on_threads(int threads, const optim::OptimizerPtr& rule, int steps = 5) {
  const auto net = std::make_shared<Net>();
  net->initialize(nn::init::fan_in(), 3);
  StepEngine engine(net, mean_cross_entropy, rule, fields(),
                    {.shards = kEngineShards, .threads = threads, .seed = 3});
  Trained result;
  for (int step = 0; step < steps; ++step)
    result.losses.push_back(engine.run(step, 0.01, engine_batch(step % 2)).loss);
  result.sha256 = engine.params_sha256();
  return result;
}

TEST(StepEngine, GivesTheSameBitsOnAnyNumberOfThreads) {
  const optim::OptimizerPtr rules[] = {
      std::make_shared<PlainSgd>(),
      std::make_shared<PlainSgd>(optim::CommonOptions{.clip_norm = 0.5}),
      std::make_shared<PlainSgd>(optim::CommonOptions{}, true)};
  for (const optim::OptimizerPtr& rule : rules) {
    const Trained one = train_on_threads(1, rule);
    for (int threads : {2, 3, 4, 5, 7, 8, 11}) {
      const Trained many = train_on_threads(threads, rule);
      EXPECT_EQ(many.sha256, one.sha256) << threads << " threads";
      EXPECT_EQ(many.losses, one.losses) << threads << " threads";
    }
  }
}

TEST(StepEngine, LearnsABatch) {
  const std::vector<double> losses = train_on_threads(2, std::make_shared<PlainSgd>(), 20).losses;
  EXPECT_LT(losses.back(), 0.5 * losses.front());
}

// Two dense layers, no draws: what the tape says must come out.
class Plain final : public nn::Block {
 public:
  Plain() : a_(add_parameter("a", {16, 6})), b_(add_parameter("b", {4, 16})) {}
  Tensor forward(const Tensor& x) override {
    return lockstep::dense(tanh(lockstep::dense(x, a_.data())), b_.data());
  }

 private:
  nn::Parameter a_, b_;
};

TEST(StepEngine, TakesTheStepThatTheTapeSays) {
  const auto net = std::make_shared<Plain>();
  net->initialize(nn::init::fan_in(), 1);
  const std::vector<TensorInfo> infos{{{2, 6}, DType::float32, {}}, {{2}, DType::int64, {}}};
  StepEngine engine(net, mean_cross_entropy, std::make_shared<PlainSgd>(), infos,
                    {.shards = 3, .threads = 2});
  std::vector<data::Fields> shards;
  std::vector<Tensor> data, labels;
  for (int s = 0; s < 3; ++s) {
    const RandomScope draws(random_key(4, 0, static_cast<std::uint32_t>(s)));
    shards.push_back({normal({2, 6}), randint(0, 4, {2})});
    data.push_back(shards.back()[0]);
    labels.push_back(shards.back()[1]);
  }
  Tensor loss;
  {
    const autograd::RecordScope record;
    loss = mean(mean_cross_entropy((*net)(concat(data, 0)), concat(labels, 0)));
  }
  autograd::backward(loss);
  const StepResult result = engine.run(0, 0.5, shards);
  EXPECT_NEAR(result.loss, loss.item(), 1e-6);
  const auto updated = std::make_shared<Plain>();
  updated->initialize();
  engine.store(*updated);
  for (const auto& [name, parameter] : net->parameters()) {
    const auto expected = (parameter.data() - parameter.grad() * 0.5).to_vector<float>();
    const auto got = updated->parameter(name).data().to_vector<float>();
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-6) << name;
  }
}

TEST(StepEngine, TakesSubnormalNumbersForZero) {
  const auto net = std::make_shared<Plain>();
  net->initialize(nn::init::fan_in(), 1);
  const std::vector<TensorInfo> infos{{{2, 6}, DType::float32, {}}, {{2}, DType::int64, {}}};
  StepEngine engine(net, mean_cross_entropy, std::make_shared<PlainSgd>(), infos,
                    {.shards = 4, .threads = 2});
  const Tensor data = Tensor::full({2, 6}, 1e-39);
  ASSERT_NE(data.to_vector<float>()[0], 0.0f);
  engine.run(0, 0.1, std::vector<data::Fields>(4, {data, Tensor::zeros({2}, DType::int64)}));
  EXPECT_EQ(engine.slots()[0].second.to_vector<float>(), std::vector<float>(16 * 6));
}

TEST(StepEngine, GoesOnExactlyFromStoredParametersAndSlots) {
  const auto rule = std::make_shared<PlainSgd>();
  const auto net = std::make_shared<Net>();
  net->initialize(nn::init::fan_in(), 3);
  StepEngine engine(net, mean_cross_entropy, rule, fields(),
                    {.shards = kEngineShards, .threads = 2});
  for (int step = 0; step < 3; ++step) engine.run(step, 0.05, engine_batch(step));
  engine.store(*net);
  const auto slots = engine.slots();
  StepEngine second(net, mean_cross_entropy, rule, fields(),
                    {.shards = kEngineShards, .threads = 3});
  second.set_slots(slots);
  for (int step = 3; step < 6; ++step) {
    engine.run(step, 0.05, engine_batch(step));
    second.run(step, 0.05, engine_batch(step));
  }
  EXPECT_EQ(second.params_sha256(), engine.params_sha256());
}

TEST(StepEngine, KeepsFrozenParameters) {
  const auto net = std::make_shared<Net>();
  net->initialize(nn::init::fan_in(), 3);
  net->parameter("conv").set_trainable(false);
  const auto before = net->parameter("conv").data().to_vector<float>();
  StepEngine engine(net, mean_cross_entropy, std::make_shared<PlainSgd>(), fields(),
                    {.shards = kEngineShards});
  engine.run(0, 0.05, engine_batch(0));
  engine.store(*net);
  EXPECT_EQ(net->parameter("conv").data().to_vector<float>(), before);
}

TEST(StepEngine, DoesNotUpdateFromALossThatIsNotFiniteAndNamesWhatMadeIt) {
  for (int threads : {1, 2}) {
    const auto net = std::make_shared<Plain>();
    net->initialize();
    const auto bad_loss = [](const Tensor& output, const Tensor&) {
      return sum(log(output - 1e6), {1});
    };
    const std::vector<TensorInfo> infos{{{2, 6}, DType::float32, {}}, {{2}, DType::int64, {}}};
    StepEngine engine(net, bad_loss, std::make_shared<PlainSgd>(), infos,
                      {.shards = 2, .threads = threads});
    const std::string before = engine.params_sha256();
    const std::vector<data::Fields> shards(
        2, {Tensor::full({2, 6}, 0.5), Tensor::zeros({2}, DType::int64)});
    EXPECT_FALSE(engine.run(0, 0.1, shards).finite);
    EXPECT_EQ(engine.params_sha256(), before);
    EXPECT_NE(engine.find_bad_op(0, shards).find("log"), std::string::npos)
        << engine.find_bad_op(0, shards);
    std::vector<data::Fields> bad_data = shards;
    bad_data[1][0] = Tensor::full({2, 6}, std::numeric_limits<double>::quiet_NaN());
    EXPECT_EQ(engine.find_bad_op(0, {&bad_data[1], 1}), "the data of shard 0");
  }
}

TEST(StepEngine, RefusesWhatDoesNotFit) {
  const auto net = std::make_shared<Net>();
  net->initialize();
  const auto rule = std::make_shared<PlainSgd>();
  StepEngine engine(net, mean_cross_entropy, rule, fields(), {.shards = kEngineShards});
  EXPECT_EQ(message_of<InvalidArgument>([&] { engine.run(0, 0.1, engine_batch(0, 5)); }),
            "train: a step needs the batches of 8 shards, got 5");
  EXPECT_EQ(message_of<InvalidArgument>(
                [&] { StepEngine(net, mean_cross_entropy, rule, {fields()[0]}, {.shards = 1}); }),
            "fields: a sample has 1, and nothing says which are inputs and which are labels: set "
            "fields, such as {input(\"x\"), label(\"y\")}");
  EXPECT_EQ(message_of<Corrupt>([&] { engine.set_slots({}); }),
            "train: the checkpoint has no slot0/conv");
  net->cast(DType::float64);
  EXPECT_EQ(message_of<InvalidArgument>(
                [&] { StepEngine(net, mean_cross_entropy, rule, fields(), {.shards = 1}); }),
            "train: parameter conv is float64; training keeps float32 and computes in less when "
            "asked (compute = bfloat16)");
}

TEST(StepEngine, AllocatesNothingOnceItRuns) {
  const auto net = std::make_shared<Net>();
  net->initialize();
  StepEngine engine(net, mean_cross_entropy, std::make_shared<PlainSgd>(), fields(),
                    {.shards = kEngineShards, .threads = 2});
  const auto shards = engine_batch(0);
  engine.run(0, 0.05, shards);
  engine.run(1, 0.05, shards);
  const auto before = memory_stats({}).allocations;
  for (int step = 2; step < 6; ++step) engine.run(step, 0.05, shards);
  EXPECT_EQ(memory_stats({}).allocations, before);
}

}  // namespace
}  // namespace lockstep::train
