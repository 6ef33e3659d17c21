// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "lockstep/kvstore/allreduce.h"
#include "lockstep/nn/layers.h"
#include "lockstep/ops/ops.h"
#include "lockstep/optim/optimizers.h"
#include "lockstep/optim/updater.h"
#include "lockstep/train/loss_function.h"
#include "lockstep/train/trainer.h"
#include "tests/kvstore/as_ranks.h"
#include "tests/message.h"
#include "tests/temporary_folder.h"
#include "tests/train/small_run.h"

namespace lockstep::train {
namespace {

using testing::message_of, testing::set_of;

constexpr std::int64_t kLossSamples = 48;

Tensor drawn(const Shape& shape, std::uint32_t number) {
  const RandomScope draws(random_key(5, number, 0));
  return normal(shape);
}

// Two inputs, two outputs.
class Crossed final : public nn::Block {
 public:
  Crossed()
      : first_(add_child("first", nn::dense(3))), second_(add_child("second", nn::dense(2))) {}
  Tensors forward_all(const Tensors& x) override {
    const Tensor left = (*first_)(x.at(0));
    return {left, (*second_)(concat({x.at(1), left}, 1))};
  }

 private:
  nn::BlockPtr first_, second_;
};

// One weight learnt for each of two tasks (Kendall et al., 2018).
class Uncertainty final : public nn::Block {
 public:
  Uncertainty() : scale_(add_parameter("scale", {2}, {.init = nn::init::constant(0.5)})) {}
  Tensors forward_all(const Tensors& x) override {
    const Tensor s = scale_.data();
    const Tensor a = mean(square(x.at(0) - x.at(2))), b = mean(square(x.at(1) - x.at(3)));
    return {a * exp(-slice(s, {0}, {1})) + b * exp(-slice(s, {1}, {2})) + sum(s)};
  }
  std::string description() const override { return "Uncertainty"; }

 private:
  nn::Parameter scale_;
};

data::DatasetPtr crossed_set() {
  return set_of({drawn({kLossSamples, 4}, 0), drawn({kLossSamples, 5}, 1),
                 drawn({kLossSamples, 3}, 2), drawn({kLossSamples, 2}, 3)});
}

FieldRoles crossed_roles() { return {input("a"), input("b"), label("left"), label("right")}; }

Tensor both_squares(const Tensors& outputs, const Tensors& labels) {
  return mean(square(outputs[0] - labels[0])) + mean(square(outputs[1] - labels[1])) * 0.5;
}

TrainerOptions options_for(FieldRoles roles, int threads = 1, kvstore::Mode* mode = nullptr) {
  return {.global_batch = 16,
          .shards = 4,
          .threads = threads,
          .seed = 2,
          .fields = std::move(roles),
          .mode = mode};
}

optim::OptimizerPtr rule() { return optim::sgd({.learning_rate = 0.05, .momentum = 0.9}); }

FitResult fit_crossed(const LossFunction& loss, int threads = 1, kvstore::Mode* mode = nullptr) {
  Trainer trainer(std::make_shared<Crossed>(), loss, rule(),
                  options_for(crossed_roles(), threads, mode));
  return trainer.fit(crossed_set(), {.epochs = 2, .validation = crossed_set()});
}

TEST(Losses, TakeSeveralOutputsAndLabelsAsALoopByHandDoes) {
  const auto net = std::make_shared<Crossed>(), by_hand = std::make_shared<Crossed>();
  const auto set = std::static_pointer_cast<const data::ArrayDataset>(crossed_set());
  TrainerOptions options = options_for(crossed_roles());
  options.global_batch = kLossSamples;
  options.shards = 1;
  Trainer trainer(net, both_squares, rule(), options);
  trainer.fit(crossed_set(), {.epochs = 3, .sampler = data::sequential_sampler(kLossSamples)});

  by_hand->initialize(nn::init::fan_in(), 2);
  const data::Fields& x = set->arrays();
  (*by_hand)({x[0], x[1]});
  optim::Updater updater(by_hand->parameters(), rule());
  for (int step = 0; step < 3; ++step) {
    Tensor loss;
    {
      const autograd::RecordScope record;
      loss = both_squares((*by_hand)({x[0], x[1]}), {x[2], x[3]});
    }
    autograd::backward(loss);
    updater.step();
  }
  for (const auto& [name, parameter] : net->parameters()) {
    const auto got = parameter.data().to_vector<float>();
    const auto expected = by_hand->parameter(name).data().to_vector<float>();
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-5) << name;
  }
}

TEST(Losses, GiveTheSameBitsOnAnyNumberOfThreadsAndWorkers) {
  for (const LossFunction& loss :
       {LossFunction(both_squares), LossFunction(std::make_shared<Uncertainty>())}) {
    // A block keeps what it has learnt: each run has a new one.
    const auto fresh = [&] {
      return loss.block() ? LossFunction(std::make_shared<Uncertainty>()) : loss;
    };
    const FitResult alone = fit_crossed(fresh());
    EXPECT_EQ(fit_crossed(fresh(), 2).params_sha256, alone.params_sha256);
    testing::as_ranks(2, [&](comm::Communicator& communicator) {
      const auto mode = kvstore::allreduce_mode(communicator);
      const FitResult result = fit_crossed(fresh(), 1, mode.get());
      EXPECT_EQ(result.params_sha256, alone.params_sha256);
      EXPECT_EQ(result.validation.loss, alone.validation.loss);
    });
  }
}

TEST(Losses, LearnParametersOfTheirOwn) {
  const auto loss = std::make_shared<Uncertainty>();
  const FitResult result = fit_crossed(loss);
  const auto scale = loss->parameter("scale").data().to_vector<float>();
  EXPECT_NE(scale[0], 0.5F);
  EXPECT_NE(scale[1], 0.5F);
  EXPECT_NE(scale[0], scale[1]);
  EXPECT_FALSE(result.has_accuracy);
}

TEST(Losses, AreResumedWithTheirParameters) {
  const testing::TemporaryFolder folder("losses");
  const auto run = [&](std::int64_t epochs, const std::string& checkpoints) {
    Trainer trainer(std::make_shared<Crossed>(), std::make_shared<Uncertainty>(), rule(),
                    options_for(crossed_roles()));
    return trainer
        .fit(crossed_set(),
             {.epochs = epochs, .checkpoints = checkpoints, .resume = !checkpoints.empty()})
        .params_sha256;
  };
  const std::string place = folder.path() + "/checkpoints";
  run(1, place);
  EXPECT_EQ(run(3, place), run(3, ""));
}

// Keeps the weight of a layer of the net small.
class Decay final : public nn::Block {
 public:
  explicit Decay(nn::BlockPtr layer)
      : layer_(add_child("layer", std::move(layer))),
        scale_(add_parameter("scale", {1}, {.init = nn::init::one()})) {}
  Tensors forward_all(const Tensors& x) override {
    return {mean(square(x.at(0) - x.at(2))) * scale_.data() + mean(square(x.at(1) - x.at(3))) +
            sum(square(layer_->parameter("weight").data())) * 0.01};
  }
  std::string description() const override { return "Decay"; }

 private:
  nn::BlockPtr layer_;
  nn::Parameter scale_;
};

TEST(Losses, AreResumedWhereTheyShareParametersOfTheNet) {
  const testing::TemporaryFolder folder("losses_shared");
  const auto run = [&](std::int64_t epochs, const std::string& checkpoints) {
    const auto net = std::make_shared<Crossed>();
    Trainer trainer(net, std::make_shared<Decay>(net->child("first")), rule(),
                    options_for(crossed_roles()));
    return trainer
        .fit(crossed_set(),
             {.epochs = epochs, .checkpoints = checkpoints, .resume = !checkpoints.empty()})
        .params_sha256;
  };
  const std::string place = folder.path() + "/checkpoints";
  run(1, place);
  EXPECT_EQ(run(3, place), run(3, ""));
}

TEST(Losses, OfOneFieldComparesItWithItself) {
  const Tensor x = drawn({kLossSamples, 6}, 0);
  const auto net = nn::sequential(nn::dense(2), nn::dense(6));
  Trainer trainer(net, nn::L2Loss(), rule(), options_for({input_and_label("x")}));
  const FitResult result = trainer.fit(
      set_of({x}), {.epochs = 2, .validation = set_of({x}), .metrics = {nn::metric("mse")}});
  const double error = mean(square((*net)(x)-x)).item();
  EXPECT_NEAR(result.validation.loss, error / 2, 1e-5);
  EXPECT_NEAR(result.validation.metrics.at(0).second, error, 1e-5);
}

TEST(Losses, OfTheOutputAloneNeedNoLabel) {
  const auto net = nn::sequential(nn::dense(6));
  Trainer trainer(
      net, [](const Tensor& y) { return square(y); }, rule(),
      options_for({input("x"), unused("file")}));
  const auto set =
      set_of({drawn({kLossSamples, 6}, 0), Tensor::zeros({kLossSamples}, DType::int64)});
  EXPECT_LT(trainer.fit(set, {.epochs = 3}).train_loss, 1.0);
}

TEST(Losses, OfALabelMayBeWeighed) {
  const Tensor x = drawn({kLossSamples, 4}, 0), t = drawn({kLossSamples, 1}, 1);
  const auto net = nn::sequential(nn::dense(1));
  Trainer trainer(net, nn::L1Loss(), rule(), options_for({input(), label(), label("weight")}));
  const Tensor w = Tensor::zeros({kLossSamples, 1});
  EXPECT_EQ(trainer.fit(set_of({x, t, w}), {.epochs = 1}).train_loss, 0.0);
}

TEST(Losses, AWeightOfOneAxisIsEachSamples) {
  const Tensor x = drawn({kLossSamples, 4}, 0), t = drawn({kLossSamples, 1}, 1),
               w = drawn({kLossSamples}, 2);
  const auto losses_with = [&](const Tensor& weight) {
    Trainer trainer(nn::sequential(nn::dense(1)), nn::L1Loss(), rule(),
                    options_for({input(), label(), label("weight")}));
    const FitResult result = trainer.fit(set_of({x, t, weight}), {.epochs = 2});
    return std::pair(result.train_loss, result.params_sha256);
  };
  EXPECT_EQ(losses_with(w), losses_with(reshape(w, {kLossSamples, 1})));
}

TEST(Losses, OfABlockAreResumedWithItsFrozenParametersAndRates) {
  const testing::TemporaryFolder folder("losses");
  const std::string place = folder.path() + "/checkpoints";
  const auto run = [&](const nn::BlockPtr& loss) {
    Trainer trainer(std::make_shared<Crossed>(), loss, rule(), options_for(crossed_roles()));
    trainer.fit(crossed_set(), {.epochs = 1, .checkpoints = place, .resume = true});
  };
  run(std::make_shared<Uncertainty>());
  const auto frozen = std::make_shared<Uncertainty>(), slow = std::make_shared<Uncertainty>();
  frozen->freeze();
  EXPECT_EQ(message_of([&] { run(frozen); }),
            place +
                ": is of a run with another configuration: frozen was \"none\", now "
                "\"loss.scale\"");
  slow->set_multipliers("scale", 0.5);
  EXPECT_EQ(message_of([&] { run(slow); }),
            place +
                ": is of a run with another configuration: multipliers was \"none\", now "
                "\"rate x 0.5, decay x 1: loss.scale\"");
}

TEST(Losses, OfABlockAreTracedAgainWhenItsModeWasSet) {
  class TimesThreeInTraining final : public nn::Block {
   public:
    Tensors forward_all(const Tensors& x) override {
      return {mean(square(x.at(0) - x.at(1))) * (autograd::is_training() ? 3.0 : 1.0)};
    }
  };
  const auto net = nn::sequential(nn::dense(1));
  net->initialize();
  const auto loss = std::make_shared<TimesThreeInTraining>();
  Evaluator evaluator(net, loss);
  const auto set = set_of({drawn({8, 4}, 0), drawn({8, 1}, 1)});
  const double before = evaluator.run(*set).loss;
  loss->set_mode(nn::Mode::train);
  EXPECT_NEAR(evaluator.run(*set).loss, 3.0 * before, 1e-5 * before);
}

TEST(Losses, AreMeasuredByMetricsOfEachOutput) {
  const auto net = std::make_shared<Crossed>();
  Trainer trainer(net, both_squares, rule(), options_for(crossed_roles()));
  const auto set = std::static_pointer_cast<const data::ArrayDataset>(crossed_set());
  trainer.fit(set, {.epochs = 1});
  EvaluateOptions options{.batch = 7};
  options.metrics = {nn::metric("mse"),
                     nn::metric_of(nn::metric("mse"), {.output = 1, .label = 1, .name = "right"})};
  std::int64_t seen = 0;
  options.on_outputs = [&](const Tensors& outputs, const Tensors& labels) {
    EXPECT_EQ(outputs.size(), 2U);
    EXPECT_EQ(labels.size(), 2U);
    EXPECT_EQ(outputs[1].shape(), labels[1].shape());
    seen += outputs[0].shape(0);
  };
  const Evaluation got = trainer.evaluate(*set, options);
  EXPECT_EQ(seen, kLossSamples);
  const data::Fields& x = set->arrays();
  const Tensors outputs = (*net)({x[0], x[1]});
  EXPECT_EQ(got.metrics.at(1).first, "right");
  EXPECT_NEAR(got.metrics.at(0).second, mean(square(outputs[0] - x[2])).item(), 1e-5);
  EXPECT_NEAR(got.metrics.at(1).second, mean(square(outputs[1] - x[3])).item(), 1e-5);
  options.metrics = {nn::metric_of(nn::metric("mse"), {.output = 2, .label = 1})};
  EXPECT_EQ(message_of([&] { trainer.evaluate(*set, options); }),
            "mse: looks at output 2, there are 2");
}

TEST(Losses, CountWhatIsRightWhereTheyAreTold) {
  const Tensor x = drawn({kLossSamples, 4}, 0);
  const auto cross_entropy = [](const Tensors& outputs, const Tensors& labels) {
    return nn::SoftmaxCrossEntropyLoss()(outputs[0], labels[1]);
  };
  const auto classes = [](const Tensors& outputs, const Tensors& labels) {
    return nn::Classes{argmax(outputs[0], -1), labels[1]};
  };
  Trainer trainer(nn::sequential(nn::dense(3)), LossFunction(cross_entropy, classes), rule(),
                  options_for({input(), label("other"), label("class")}));
  const Tensor numbers = Tensor::zeros({kLossSamples}, DType::int64);
  const FitResult result = trainer.fit(set_of({x, x, numbers}), {.epochs = 10});
  EXPECT_TRUE(result.has_accuracy);
  EXPECT_EQ(result.train_accuracy, 1.0);
}

std::string error_of(nn::BlockPtr net, const LossFunction& loss, const FieldRoles& roles,
                     data::Fields fields) {
  return message_of([&] {
    Trainer trainer(std::move(net), loss, rule(), options_for(roles));
    trainer.fit(set_of(std::move(fields)));
  });
}

TEST(Losses, ThatDoNotFitTheNetOrTheSampleSaySo) {
  const Tensor x = drawn({kLossSamples, 4}, 0), y = drawn({kLossSamples, 5}, 1);
  const auto net = [] { return nn::sequential(nn::dense(4)); };
  EXPECT_EQ(error_of(net(), nn::L2Loss(), {input(), label(), label(), label()}, {x, x, x, x}),
            "L2Loss: takes 1 output and 1 label, or 2 where the second is each sample's weight; "
            "the net gives 1 output, and the sample has 3 labels");
  EXPECT_EQ(
      error_of(net(), [](const Tensor& a, const Tensor& b) { return a - b; }, {input()}, {x}),
      "loss: takes 1 output and 1 label, or 2 outputs; the net gives 1 output, and the sample "
      "has 0 labels");
  EXPECT_EQ(error_of(net(), nn::TripletLoss(), {}, {x, x}),
            "TripletLoss: takes 3 tensors, the outputs and then the labels; the net gives 1 "
            "output, and the sample has 1 label");
  EXPECT_EQ(error_of(net(), nn::L2Loss(), {}, {x, y}),
            "L2Loss: label has shape [4, 5], expected [4, 4] as the prediction");
  EXPECT_EQ(
      error_of(net(), [](const Tensor& a, const Tensor&) { return argmax(a, -1); }, {}, {x, x}),
      "loss: gives int64[4], expected floats");
  EXPECT_EQ(error_of(net(), [](const Tensor&, const Tensor& b) { return b; }, {}, {x, x}),
            "train: the loss does not depend on any parameter that is trained: it makes no use of "
            "the outputs, all of its history was detached or paused, or all parameters are frozen");
  const auto frozen = net();
  frozen->freeze();
  EXPECT_EQ(error_of(frozen, nn::L2Loss(), {}, {x, x}),
            "train: the loss L2Loss does not depend on any parameter that is trained: it makes no "
            "use of the outputs, all of its history was detached or paused, or all parameters are "
            "frozen");
}

TEST(Losses, OfOneOutputTakeTheFirstAndSaySo) {
  const Tensor a = drawn({kLossSamples, 4}, 0), b = drawn({kLossSamples, 5}, 1),
               t = drawn({kLossSamples, 3}, 2);
  const auto with = [&](const LossFunction& loss) {
    Trainer trainer(std::make_shared<Crossed>(), loss, rule(),
                    options_for({input(), input(), label()}));
    return trainer.fit(set_of({a, b, t}), {.epochs = 1});
  };
  const FitResult simple = with(nn::L2Loss());
  ASSERT_EQ(simple.warnings.size(), 1U);
  EXPECT_EQ(simple.warnings[0],
            "the net gives 2 outputs, and L2Loss takes the first alone: a loss of (outputs, "
            "labels) takes them all");
  const auto of_lists = [](const Tensors& outputs, const Tensors& labels) {
    return nn::L2Loss()(outputs[0], labels[0]);
  };
  const FitResult listed = with(of_lists);
  EXPECT_TRUE(listed.warnings.empty());
  EXPECT_EQ(simple.params_sha256, listed.params_sha256);
}

TEST(Losses, OfAnyFloatingDtypeAreReportedInFloat32) {
  const auto set = set_of({drawn({kLossSamples, 4}, 1), drawn({kLossSamples, 1}, 2)});
  const auto fit = [&](DType dtype) {
    const LossFunction loss([dtype](const Tensor& y, const Tensor& t) {
      return square(cast(y, dtype) - cast(t, dtype));
    });
    Trainer trainer(nn::sequential(nn::dense(1)), loss, optim::sgd({.learning_rate = 0.1}),
                    {.global_batch = 16, .shards = 2});
    return trainer.fit(set, {.epochs = 3, .validation = set});
  };
  const FitResult wanted = fit(DType::float32);
  for (const DType dtype : {DType::float64, DType::bfloat16, DType::float16}) {
    const FitResult result = fit(dtype);
    EXPECT_NEAR(result.train_loss, wanted.train_loss, 0.02 * wanted.train_loss);
    EXPECT_NEAR(result.validation.loss, wanted.validation.loss, 0.02 * wanted.validation.loss);
  }
}

// Counts samples in an integer, and adds them up in float64.
class Counting final : public nn::Block {
 public:
  Counting()
      : dense_(add_child("dense", nn::dense(1))),
        seen_(add_parameter("seen", {}, {.init = nn::init::zero(), .trainable = false})),
        sum_(add_parameter("sum", {}, {.init = nn::init::zero(), .trainable = false})) {}
  Tensor forward(const Tensor& x) override {
    seen_.update(full({}, static_cast<double>(x.shape(0)), DType::int64));
    sum_.update(lockstep::cast(sum_.data(), DType::float64) + 1.0);
    return (*dense_)(x);
  }

 private:
  nn::BlockPtr dense_;
  nn::Parameter seen_, sum_;
};

TEST(Losses, StatisticsOfAnotherDtypeAreConverted) {
  const auto net = std::make_shared<Counting>();
  Trainer trainer(net, nn::L2Loss(), optim::sgd({.learning_rate = 0.1}),
                  {.global_batch = 16, .shards = 2});
  trainer.fit(set_of({drawn({kLossSamples, 4}, 1), drawn({kLossSamples, 1}, 2)}), {.epochs = 1});
  EXPECT_EQ(net->parameter("seen").data().item(), 8.0);
  EXPECT_EQ(net->parameter("sum").data().item(), 3.0);
}

// One of its two layers is no part of what it says.
class HalfUsed final : public nn::Block {
 public:
  HalfUsed() : used_(add_child("used", nn::dense(1))), other_(add_child("other", nn::dense(4))) {}
  Tensor forward(const Tensor& x) override {
    const Tensor shapes_alone = (*other_)(x);
    return (*used_)(x);
  }

 private:
  nn::BlockPtr used_, other_;
};

TEST(Losses, DoNotMoveWhatTheyDoNotDependOn) {
  const optim::OptimizerPtr rules[] = {
      optim::sgd({.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.1}),
      optim::adam({.learning_rate = 0.1, .weight_decay = 0.1}),
      optim::adamw({.learning_rate = 0.1, .weight_decay = 0.1}),
      optim::adamax({.learning_rate = 0.1, .weight_decay = 0.1}),
      optim::nadam({.learning_rate = 0.1, .weight_decay = 0.1}),
      optim::adadelta({.weight_decay = 0.1}),
      optim::signum({.learning_rate = 0.1, .weight_decay = 0.1}),
      optim::rmsprop({.learning_rate = 0.1, .weight_decay = 0.1}),
      optim::adagrad({.learning_rate = 0.1, .weight_decay = 0.1}),
      optim::lamb({.learning_rate = 0.1, .weight_decay = 0.1}),
      optim::lars({.learning_rate = 0.1, .weight_decay = 0.1})};
  for (const optim::OptimizerPtr& rule : rules) {
    const auto net = std::make_shared<HalfUsed>();
    net->initialize(nn::init::normal(0.5), 3);
    (*net)(zeros({1, 4}));
    const auto kept = net->parameter("other.weight").data().to_vector<float>();
    const auto moved = net->parameter("used.weight").data().to_vector<float>();
    Trainer trainer(net, nn::L2Loss(), rule, {.global_batch = 16, .shards = 2});
    trainer.fit(set_of({drawn({kLossSamples, 4}, 1), drawn({kLossSamples, 1}, 2)}), {.epochs = 2});
    EXPECT_EQ(net->parameter("other.weight").data().to_vector<float>(), kept) << rule->name();
    EXPECT_NE(net->parameter("used.weight").data().to_vector<float>(), moved) << rule->name();
  }
}

TEST(Losses, OfABlockDoNotShareNamesWithTheNet) {
  class Named final : public nn::Block {
   public:
    Named() : child_(add_child("loss", nn::dense(4))) {}
    Tensor forward(const Tensor& x) override { return (*child_)(x); }

   private:
    nn::BlockPtr child_;
  };
  const Tensor x = drawn({kLossSamples, 4}, 0);
  EXPECT_EQ(error_of(std::make_shared<Named>(), std::make_shared<Uncertainty>(), {}, {x, x}),
            "train: the net has a parameter loss.weight, and names that begin with loss. are the "
            "loss's: give the net's child another name");
}

TEST(Fields, AreSaidUnlessTheyAreTwo) {
  const Tensor x = drawn({kLossSamples, 4}, 0);
  const auto net = nn::sequential(nn::dense(4));
  EXPECT_EQ(error_of(net, nn::L2Loss(), {}, {x, x, x}),
            "fields: a sample has 3, and nothing says which are inputs and which are labels: set "
            "fields, such as {input(\"x\"), label(\"y\")}");
  EXPECT_EQ(error_of(net, nn::L2Loss(), {input("image"), label("class")}, {x, x, x}),
            "fields: a sample has 3, 2 are described: image (input), class (label)");
  EXPECT_EQ(error_of(net, nn::L2Loss(), {label("class"), unused()}, {x, x}),
            "fields: none is an input of the net: class (label), field1 (unused)");
  EXPECT_EQ(error_of(net, nn::L2Loss(), {input("a"), input("b"), label("c")}, {x, x, x}),
            "Sequential: takes 1 input, got 2");
}

}  // namespace
}  // namespace lockstep::train
