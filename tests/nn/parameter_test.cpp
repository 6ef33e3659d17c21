// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/parameter.h"

#include <gtest/gtest.h>

#include "lockstep/ops/create.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/reduce.h"
#include "tests/message.h"

namespace lockstep::nn {
namespace {

using autograd::GradMode;
using testing::message_of;
using Floats = std::vector<float>;

Floats contents(const Parameter& parameter) { return parameter.data().to_vector<float>(); }

Parameter made_parameter(const Shape& shape, const std::string& name, std::uint64_t seed = 0) {
  const Parameter parameter(shape);
  parameter.initialize(name, init::fan_in(), seed);
  return parameter;
}

TEST(Parameter, WithoutContentsSaysWhatToCall) {
  const Parameter parameter({2, 3});
  parameter.set_name("fc1.weight");
  EXPECT_EQ(message_of([&] { parameter.data(); }),
            "fc1.weight: has no contents yet; call initialize() on the block first");
}

TEST(Parameter, AnUndefinedOneIsAnError) {
  EXPECT_EQ(message_of([] { Parameter().data(); }), "parameter: undefined");
  EXPECT_FALSE(Parameter().defined());
}

TEST(Parameter, WaitsForItsShape) {
  const Parameter parameter({4, -1});
  parameter.initialize("w", init::fan_in(), 0);
  EXPECT_FALSE(parameter.is_initialized());
  EXPECT_EQ(message_of([&] { parameter.data(); }),
            "w: its shape [4, -1] is not known yet; call the block on a batch, or "
            "complete_shapes(), first");
  parameter.complete({4, 3});
  EXPECT_EQ(parameter.data().shape(), (Shape{4, 3}));
  EXPECT_EQ(contents(parameter), contents(made_parameter({4, 3}, "w")));
}

TEST(Parameter, RefusesAShapeThatDiffersFromWhatIsKnown) {
  const Parameter parameter({4, -1});
  parameter.set_name("w");
  EXPECT_EQ(message_of([&] { parameter.complete({5, 3}); }), "w: has shape [4, -1], got [5, 3]");
  EXPECT_EQ(message_of([&] {
              parameter.complete({4, 3, 1});
            }),
            "w: has shape [4, -1], got [4, 3, 1]");
  EXPECT_EQ(message_of([&] { parameter.complete({4, -1}); }), "w: shape [4, -1] is not whole");
  EXPECT_EQ(message_of([] { Parameter({-2}); }), "parameter: shape [-2] has a size below -1");
}

TEST(Parameter, StartsAsSeedNameAndShapeSay) {
  const Floats one = contents(made_parameter({8, 8}, "a"));
  EXPECT_EQ(one, contents(made_parameter({8, 8}, "a")));
  EXPECT_NE(one, contents(made_parameter({8, 8}, "b")));
  EXPECT_NE(one, contents(made_parameter({8, 8}, "a", 1)));
}

TEST(Parameter, KeepsItsContentsUnlessForced) {
  const Parameter parameter = made_parameter({3}, "w");
  parameter.set_data(full({3}, 7.0));
  parameter.initialize("w", init::zero(), 0);
  EXPECT_EQ(contents(parameter), (Floats{7, 7, 7}));
  parameter.initialize("w", init::zero(), 0, /*force=*/true);
  EXPECT_EQ(contents(parameter), (Floats{0, 0, 0}));
}

TEST(Parameter, ItsOwnInitialiserComesBeforeTheBlocks) {
  const Parameter parameter({2}, {.init = init::constant(3)});
  parameter.initialize("w", init::zero(), 0);
  EXPECT_EQ(contents(parameter), (Floats{3, 3}));
}

TEST(Parameter, AnInitialisersErrorNamesTheParameter) {
  const Parameter parameter({2});
  EXPECT_EQ(message_of([&] { parameter.initialize("fc.scale", init::xavier(), 0); }),
            "fc.scale: xavier: shape is [2], expected two axes or more");
  EXPECT_EQ(message_of([&] { parameter.initialize("fc.scale", {}, 0); }),
            "fc.scale: there is no initialiser for it");
}

TEST(Parameter, SetDataCopiesAndConverts) {
  const Parameter parameter({2});
  const Tensor value = full({2}, 2.0, DType::float64);
  parameter.set_data(value);
  value.assign(zeros({2}));
  EXPECT_EQ(parameter.data().dtype(), DType::float32);
  EXPECT_EQ(contents(parameter), (Floats{2, 2}));
  EXPECT_EQ(message_of([&] { parameter.set_data(zeros({3})); }),
            "parameter: has shape [2], got [3]");
}

TEST(Parameter, GradientsReachIt) {
  const Parameter parameter = made_parameter({2}, "w");
  EXPECT_FALSE(parameter.grad().defined());
  for (int i = 0; i < 2; ++i) {
    const autograd::RecordScope record;
    autograd::backward(sum(parameter.data() * 3.0));
  }
  EXPECT_EQ(parameter.grad().to_vector<float>(), (Floats{3, 3}));
  parameter.set_grad_mode(GradMode::add);
  for (int i = 0; i < 2; ++i) {
    const autograd::RecordScope record;
    autograd::backward(sum(parameter.data() * 3.0));
  }
  EXPECT_EQ(parameter.grad().to_vector<float>(), (Floats{6, 6}));
}

TEST(Parameter, AFrozenOneWantsNoGradientAndIgnoresUpdates) {
  const Parameter parameter = made_parameter({2}, "w");
  const Floats before = contents(parameter);
  parameter.set_trainable(false);
  parameter.update(zeros({2}));
  EXPECT_FALSE(autograd::requires_grad(parameter.data()));
  EXPECT_FALSE(parameter.options().trainable);
  EXPECT_EQ(contents(parameter), before);
  parameter.set_trainable(true);
  EXPECT_TRUE(autograd::requires_grad(parameter.data()));
  parameter.update(zeros({2}));
  EXPECT_EQ(contents(parameter), (Floats{0, 0}));
}

TEST(Parameter, AStatisticStaysOneWhenItIsNoLongerFrozen) {
  const Parameter parameter({2}, {.init = init::zero(), .trainable = false});
  parameter.initialize("running_mean", {}, 0);
  parameter.set_trainable(false);
  parameter.set_trainable(true);
  EXPECT_FALSE(parameter.options().trainable);
  EXPECT_FALSE(autograd::requires_grad(parameter.data()));
}

TEST(Parameter, CastKeepsTheValuesAndTheGradient) {
  const Parameter parameter = made_parameter({2}, "w");
  parameter.set_data(full({2}, 1.5));
  parameter.cast(DType::bfloat16);
  EXPECT_EQ(parameter.data().dtype(), DType::bfloat16);
  EXPECT_EQ(contents(parameter), (Floats{1.5, 1.5}));
  EXPECT_TRUE(autograd::requires_grad(parameter.data()));
}

TEST(Parameter, SharingMovesAllHandlesOfOne) {
  const Parameter first = made_parameter({2}, "a"), second = made_parameter({2}, "b");
  const Parameter copy = second;
  second.share(first);
  EXPECT_TRUE(copy.same_as(first));
  copy.set_data(full({2}, 5.0));
  EXPECT_EQ(contents(first), (Floats{5, 5}));
  EXPECT_EQ(message_of([&] { made_parameter({3}, "c").share(first); }),
            "c: has shape [3], cannot share a with shape [2]");
}

TEST(ParameterScope, GivesParametersAndTakesUpdates) {
  const Parameter parameter = made_parameter({2}, "w");
  const Floats before = contents(parameter);
  const Tensor given = full({2}, 4.0);
  Tensor taken;
  {
    const ParameterScope scope([&](const Parameter&) { return given; },
                               [&](const Parameter&, const Tensor& value) { taken = value; });
    EXPECT_TRUE(parameter.data().same_as(given));
    parameter.update(ones({2}));
    const ParameterScope inner([&](const Parameter&) { return zeros({2}); },
                               [](const Parameter&, const Tensor&) {});
    EXPECT_EQ(contents(parameter), (Floats{0, 0}));
  }
  EXPECT_EQ(taken.to_vector<float>(), (Floats{1, 1}));
  EXPECT_EQ(contents(parameter), before);
}

TEST(ParameterScope, NeedsNoContentsButAShape) {
  const Parameter parameter({-1});
  parameter.set_name("w");
  const ParameterScope scope([](const Parameter& p) { return zeros(p.shape()); },
                             [](const Parameter&, const Tensor&) {});
  EXPECT_THROW(parameter.data(), InvalidArgument);
  parameter.complete({3});
  EXPECT_EQ(parameter.data().shape(), (Shape{3}));
}

TEST(Parameter, HasTheMultipliersThatItWasGivenLast) {
  const Parameter parameter({2}, {.rate_multiplier = 0.5});
  EXPECT_EQ(parameter.options().rate_multiplier, 0.5);
  parameter.set_multipliers(2.0, 0.0);
  EXPECT_EQ(parameter.options().rate_multiplier, 2.0);
  EXPECT_EQ(parameter.options().decay_multiplier, 0.0);
}

TEST(Parameter, IsMadeOutsideOfWhatIsRecorded) {
  const Parameter parameter({3, -1});
  parameter.initialize("w", init::fan_in(), 0);
  const autograd::RecordScope record;
  parameter.complete({3, 2});
  autograd::backward(sum(parameter.data()));
  EXPECT_EQ(parameter.grad().to_vector<float>(), Floats(6, 1.0f));
}

}  // namespace
}  // namespace lockstep::nn
