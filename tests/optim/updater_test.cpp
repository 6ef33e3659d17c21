// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/updater.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <numeric>

#include "lockstep/io/archive.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/reduce.h"
#include "tests/message.h"
#include "tests/optim/rule_runner.h"

namespace lockstep::optim {
namespace {

using lockstep::testing::message_of;

std::vector<float> values_of(const nn::Parameter& parameter) {
  return parameter.data().to_vector<float>();
}

nn::Parameter made(const std::string& name, const std::vector<float>& values,
                   const nn::ParameterOptions& options = {}) {
  const nn::Parameter parameter({static_cast<std::int64_t>(values.size())}, options);
  parameter.initialize(name, nn::init::zero(), 0);
  parameter.set_data(Tensor::from(values, {static_cast<std::int64_t>(values.size())}));
  return parameter;
}

// Gives each parameter the gradient `slope` in every element.
void backward_of(const std::vector<nn::NamedParameter>& parameters, double slope) {
  std::vector<Tensor> heads;
  {
    const autograd::RecordScope record;
    for (const auto& named : parameters) heads.push_back(sum(named.parameter.data()) * slope);
  }
  autograd::backward(heads);
}

TEST(Updater, DividesGradientsByTheBatchSize) {
  const nn::Parameter w = made("w", {1.0F, 2.0F});
  Updater updater({{"w", w}}, sgd({.learning_rate = 0.5}));
  backward_of({{"w", w}}, 8.0);
  updater.step(4);
  EXPECT_EQ(values_of(w), (std::vector<float>{0.0F, 1.0F}));
  EXPECT_EQ(updater.steps(), 1);
}

TEST(Updater, KeepsWhatTheRuleKeepsFromStepToStep) {
  const nn::Parameter w = made("w", {0.0F});
  Updater updater({{"w", w}}, sgd({.learning_rate = 1.0, .momentum = 0.5}));
  for (int i = 0; i < 3; ++i) {
    backward_of({{"w", w}}, 1.0);
    updater.step();
  }
  EXPECT_EQ(values_of(w), (std::vector<float>{-1.0F - 1.5F - 1.75F}));
}

TEST(Updater, HonoursTheParametersMultipliers) {
  const nn::Parameter a = made("a", {1.0F}, {.rate_multiplier = 2.0, .decay_multiplier = 0.0});
  const nn::Parameter b = made("b", {1.0F});
  const std::vector<nn::NamedParameter> both{{"a", a}, {"b", b}};
  Updater updater(both, sgd({.learning_rate = 0.25, .weight_decay = 1.0}));
  backward_of(both, 1.0);
  updater.step();
  EXPECT_EQ(values_of(a), (std::vector<float>{0.5F}));
  EXPECT_EQ(values_of(b), (std::vector<float>{0.5F}));
}

TEST(Updater, LeavesFrozenParametersAlone) {
  const nn::Parameter w = made("w", {1.0F});
  w.set_trainable(false);
  Updater updater({{"w", w}}, sgd());
  updater.step();
  EXPECT_EQ(values_of(w), (std::vector<float>{1.0F}));
}

TEST(Updater, ClipsTheNormOfAllGradientsTogether) {
  const nn::Parameter a = made("a", std::vector<float>(9, 0.0F));
  const nn::Parameter b = made("b", std::vector<float>(7, 0.0F));
  const std::vector<nn::NamedParameter> both{{"a", a}, {"b", b}};
  Updater updater(both, sgd({.learning_rate = 1.0, .clip_norm = 2.0}));
  backward_of(both, 6.0);
  updater.step(2);  // norm of the means: sqrt(16 * 3^2) = 12
  EXPECT_FLOAT_EQ(values_of(a)[0], -0.5F);
  EXPECT_FLOAT_EQ(values_of(b)[6], -0.5F);
}

TEST(Updater, FollowsItsScheduleAndARateThatIsSet) {
  const nn::Parameter w = made("w", {0.0F});
  Updater updater({{"w", w}}, sgd(), multi_factor(1.0, {1}, 0.5));
  EXPECT_EQ(updater.learning_rate(), 1.0);
  backward_of({{"w", w}}, 1.0);
  updater.step();
  EXPECT_EQ(updater.learning_rate(), 0.5);
  updater.step();
  EXPECT_EQ(values_of(w), (std::vector<float>{-1.5F}));
  updater.set_learning_rate(4.0);
  updater.step();
  EXPECT_EQ(values_of(w), (std::vector<float>{-5.5F}));
}

TEST(Updater, MeasuresAWholeParameterForRulesThatNeedIt) {
  const auto count = static_cast<std::int64_t>(kPieceElements + 100);
  const auto values = testing::random_floats(static_cast<std::size_t>(count), 4);
  const nn::Parameter w = made("w", values);
  Updater updater({{"w", w}}, lars({.learning_rate = 1.0, .momentum = 0.0, .eta = 0.5}));
  backward_of({{"w", w}}, 2.0);
  updater.step();
  const double squares = std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
  const double ratio = 0.5 * std::sqrt(squares) / (2.0 * std::sqrt(static_cast<double>(count)));
  EXPECT_NEAR(values_of(w).back(), double{values.back()} - 2.0 * ratio, 1e-5);
}

TEST(Updater, KeepsAFloat32CopyOfShorterParameters) {
  const nn::Parameter w = made("w", {1.0F}, {.dtype = DType::bfloat16});
  Updater updater({{"w", w}}, sgd({.learning_rate = 0x1p-12}));
  for (int i = 0; i < 64; ++i) {  // each step is far below bfloat16's precision at 1
    backward_of({{"w", w}}, 1.0);
    updater.step();
  }
  EXPECT_EQ(values_of(w), (std::vector<float>{1.0F - 0x1p-6F}));
  w.set_data(Tensor::from(std::vector<float>{2.0F}, {1}));
  for (int i = 0; i < 64; ++i) updater.step();
  EXPECT_EQ(values_of(w), (std::vector<float>{2.0F - 0x1p-6F}));
}

TEST(Updater, AMissingGradientIsAnErrorUnlessItMayBeMissing) {
  const nn::Parameter a = made("a", {1.0F});
  const nn::Parameter b = made("net.b", {1.0F});
  const std::vector<nn::NamedParameter> both{{"a", a}, {"net.b", b}};
  Updater updater(both, sgd({.learning_rate = 1.0}));
  backward_of({{"a", a}}, 1.0);
  EXPECT_EQ(message_of([&] { updater.step(); }),
            "updater: parameter 'net.b' has no gradient, expected backward() of a recorded loss "
            "that depends on it");
  EXPECT_EQ(values_of(a), (std::vector<float>{1.0F}));
  Updater lenient(both, sgd({.learning_rate = 1.0}), {}, {.ignore_missing_gradients = true});
  lenient.step();
  EXPECT_EQ(values_of(a), (std::vector<float>{0.0F}));
  EXPECT_EQ(values_of(b), (std::vector<float>{1.0F}));
}

TEST(Updater, RefusesWhatItCannotWorkWith) {
  const nn::Parameter w = made("w", {1.0F}, {.dtype = DType::float64});
  Updater updater({{"w", w}}, sgd());
  EXPECT_EQ(message_of([&] { updater.step(0); }), "updater: batch size is 0, expected 1 or more");
  backward_of({{"w", w}}, 1.0);
  EXPECT_EQ(message_of<Unsupported>([&] { updater.step(); }),
            "updater: parameter 'w' is float64, expected float32 or a shorter type");
  EXPECT_EQ(message_of([] { Updater({}, nullptr); }),
            "updater: no rule, expected one such as sgd()");
}

class UpdaterStates : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path); }

  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("lockstep_updater_{}", ::getpid()))
          .string();
};

TEST_F(UpdaterStates, ContinueWhereTheyWereSaved) {
  const nn::Parameter w = made("w", testing::random_floats(20, 1));
  const nn::Parameter half = made("half", {1.0F}, {.dtype = DType::bfloat16});
  const std::vector<nn::NamedParameter> both{{"w", w}, {"half", half}};
  Updater first(both, adam({.learning_rate = 0.001}));
  backward_of(both, 1.0);
  for (int i = 0; i < 3; ++i) first.step();
  first.save(path);
  const Tensor saved = w.data().copy();
  const Tensor saved_half = half.data().copy();
  first.step();
  const auto expected = values_of(w);
  w.set_data(saved);
  half.set_data(saved_half);
  Updater second(both, adam({.learning_rate = 0.001}));
  second.load(path);
  EXPECT_EQ(second.steps(), 3);
  second.step();
  EXPECT_EQ(values_of(w), expected);
  second.save(path + ".again");
  EXPECT_EQ(io::read_archive(path + ".again").tensors.size(), 5U);
  std::filesystem::remove(path + ".again");
}

TEST_F(UpdaterStates, OfAnotherRuleOrOtherParametersAreRefused) {
  const nn::Parameter w = made("w", {1.0F, 2.0F});
  const nn::Parameter longer = made("w", {1.0F, 2.0F, 3.0F});
  Updater updater({{"w", w}}, adam());
  backward_of({{"w", w}}, 1.0);
  updater.step();
  updater.save(path);
  EXPECT_EQ(message_of([&] {
              Updater({{"w", w}}, adamax()).load(path);
            }),
            path + ": states of the rule adam, expected adamax");
  EXPECT_EQ(message_of<Corrupt>([&] {
              Updater({{"w", longer}}, adam()).load(path);
            }),
            path + ": tensor 'slot0/w' is float32[2], expected float32[3]");
  EXPECT_EQ(message_of([&] {
              Updater({{"v", w}}, adam()).load(path);
            }),
            path + ": tensor 'slot0/w' belongs to no parameter");
  io::write_archive(path, {});
  EXPECT_EQ(message_of<Corrupt>([&] { updater.load(path); }),
            path + ": no rule and steps, expected what Updater::save wrote");
}

TEST_F(UpdaterStates, ThatAreIncompleteAreCorrupt) {
  const nn::Parameter w = made("w", {1.0F});
  io::write_archive(path, {.metadata = R"({"rule": "adam", "steps": 1})",
                           .tensors = {{"slot0/w", Tensor::zeros({1})}}});
  EXPECT_EQ(message_of<Corrupt>([&] {
              Updater({{"w", w}}, adam()).load(path);
            }),
            path + ": no tensor 'slot1/w'");
}

}  // namespace
}  // namespace lockstep::optim
