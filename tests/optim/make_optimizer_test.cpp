// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/message.h"
#include "tests/optim/rule_runner.h"

namespace lockstep::optim {
namespace {

using lockstep::testing::message_of;

TEST(MakeOptimizer, KnowsEveryRuleByItsNameInAnyCase) {
  for (const auto& rule : testing::all_rules())
    EXPECT_EQ(make_optimizer(rule->name())->name(), rule->name());
  EXPECT_EQ(make_optimizer("AdaMW")->name(), "adamw");
  EXPECT_EQ(optimizer_names().size(), 13U);
}

TEST(MakeOptimizer, TakesTheParametersNames) {
  const auto rule = make_optimizer(
      "sgd", {{"learning_rate", 0.5}, {"wd", 0.25}, {"clip_gradient", 2.0}, {"momentum", 0.75}});
  EXPECT_EQ(rule->options().learning_rate, 0.5);
  EXPECT_EQ(rule->options().weight_decay, 0.25);
  EXPECT_EQ(rule->options().clip_value, 2.0);
  EXPECT_EQ(rule->description(), "momentum=0.75, nesterov=false");
  EXPECT_EQ(make_optimizer("nag")->description(), "momentum=0.9, nesterov=true");
  EXPECT_EQ(make_optimizer("adam", {{"beta1", 0.5}, {"epsilon", 0.25}})->description(),
            "beta1=0.5, beta2=0.999, epsilon=0.25");
  EXPECT_EQ(make_optimizer("adamw", {{"amsgrad", 1}})->description(),
            "beta1=0.9, beta2=0.999, epsilon=1e-08, amsgrad=true");
  EXPECT_EQ(make_optimizer("sgd", {{"momentum", 0.5}, {"dampening", 0.25}})->description(),
            "momentum=0.5, nesterov=false, dampening=0.25");
  EXPECT_EQ(make_optimizer("rmsprop", {{"gamma1", 0.5}, {"gamma2", 0.25}, {"centered", 1}})
                ->description(),
            "rho=0.5, momentum=0.25, epsilon=1e-08, centered=true");
  EXPECT_EQ(make_optimizer("ftrl", {{"lamda1", 0.5}})->description(), "lambda1=0.5, beta=1");
}

TEST(MakeOptimizer, KeepsARulesOwnDefaults) {
  EXPECT_EQ(make_optimizer("adam")->options().learning_rate, 0.001);
  EXPECT_EQ(make_optimizer("adamw")->options().weight_decay, 0.01);
  EXPECT_EQ(make_optimizer("adadelta")->options().learning_rate, 1.0);
}

TEST(MakeOptimizer, MakesARuleAgainOfItsNameAndArguments) {
  for (const std::string& name : optimizer_names()) {
    std::map<std::string, double> given = make_optimizer(name)->arguments();
    ASSERT_FALSE(given.empty()) << name;
    given["wd"] = 0.25;
    given["learning_rate"] = 0.1 + 0.2;
    const auto rule = make_optimizer(name == "nag" ? "sgd" : name, given);
    const auto again = make_optimizer(rule->name(), rule->arguments());
    EXPECT_EQ(again->name(), rule->name());
    EXPECT_EQ(again->description(), rule->description());
    EXPECT_EQ(again->arguments(), given) << name;
    EXPECT_EQ(again->options().learning_rate, 0.1 + 0.2);
  }
}

TEST(MakeOptimizer, AnUnknownNameIsAnErrorThatListsTheNames) {
  EXPECT_EQ(
      message_of<NotFound>([] { make_optimizer("adm"); }),
      "optimizer 'adm': no such rule, expected one of adadelta, adagrad, adam, adamax, adamw, "
      "ftrl, lamb, lars, nadam, nag, rmsprop, sgd, signum");
}

TEST(MakeOptimizer, AnUnknownParameterIsAnErrorThatListsTheParameters) {
  EXPECT_EQ(message_of([] {
              make_optimizer("sgd", {{"beta1", 0.9}});
            }),
            "sgd: no parameter 'beta1', expected some of learning_rate, wd, clip_gradient, "
            "clip_norm, momentum, nesterov, dampening");
  EXPECT_EQ(message_of([] {
              make_optimizer("sgd", {{"nesterov", 2}, {"momentum", 0.9}});
            }),
            "sgd: nesterov is 2, expected 0 or 1");
  EXPECT_EQ(message_of([] {
              make_optimizer("sgd", {{"dampening", 0.5}});
            }),
            "sgd: dampening 0.5, expected a momentum above 0 with it");
  EXPECT_EQ(message_of([] {
              make_optimizer("sgd", {{"momentum", 0.5}, {"nesterov", 1}, {"dampening", 0.5}});
            }),
            "sgd: dampening 0.5, expected none beside nesterov");
}

}  // namespace
}  // namespace lockstep::optim
