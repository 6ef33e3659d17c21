// SPDX-License-Identifier: Apache-2.0
// Every rule against a naive one in double precision, written from its definition.
#include <gtest/gtest.h>

#include <functional>

#include "tests/optim/rule_runner.h"

namespace lockstep::optim {
namespace {

using testing::random_floats;
using testing::RuleState;
using testing::run_step;

constexpr double kRate = 0.05;
constexpr double kDecay = 0.02;
constexpr int kSteps = 12;

// One element of a naive rule: the weight, the gradient (scaled and clipped, not decayed), what it
// keeps, the step from 1. Returns the new weight.
using Element = std::function<double(double w, double g, double* s, int t)>;

void expect_near(const RuleState& state, const std::vector<double>& expected, int step) {
  for (std::size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(state.weight[i], expected[i], 2e-5 * (1.0 + std::abs(expected[i])))
        << "element " << i << " after step " << step;
}

void compare(const OptimizerPtr& rule, const Element& element) {
  constexpr std::size_t kCount = 53;
  RuleState state(*rule, random_floats(kCount, 1));
  std::vector<double> naive(state.weight.begin(), state.weight.end());
  std::vector<std::array<double, 3>> kept(kCount);
  for (int t = 1; t <= kSteps; ++t) {
    const auto gradient = random_floats(kCount, static_cast<std::uint32_t>(100 + t));
    run_step(*rule,
             {.step = t,
              .learning_rate = kRate,
              .weight_decay = kDecay,
              .gradient_scale = 0.5,
              .clip_value = 0.6},
             state, gradient);
    for (std::size_t i = 0; i < kCount; ++i) {
      const double g = std::clamp(0.5 * double{gradient[i]}, -0.6, 0.6);
      naive[i] = element(naive[i], g, kept[i].data(), t);
    }
    expect_near(state, naive, t);
  }
}

double signum_of(double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : 0.0; }

TEST(UpdateRules, SgdFollowsItsDefinition) {
  compare(sgd(), [](double w, double g, double*, int) { return w - kRate * (g + kDecay * w); });
}

TEST(UpdateRules, SgdWithMomentumFollowsItsDefinition) {
  compare(sgd({.momentum = 0.9}), [](double w, double g, double* s, int) {
    s[0] = 0.9 * s[0] + g + kDecay * w;
    return w - kRate * s[0];
  });
}

TEST(UpdateRules, DampeningTakesLessOfEachGradientButTheFirst) {
  compare(sgd({.momentum = 0.9, .dampening = 0.7}), [](double w, double g, double* s, int t) {
    s[0] = 0.9 * s[0] + (t == 1 ? 1.0 : 0.3) * (g + kDecay * w);
    return w - kRate * s[0];
  });
}

TEST(UpdateRules, NesterovFollowsItsDefinition) {
  compare(sgd({.momentum = 0.8, .nesterov = true}), [](double w, double g, double* s, int) {
    g += kDecay * w;
    s[0] = 0.8 * s[0] + g;
    return w - kRate * (g + 0.8 * s[0]);
  });
}

TEST(UpdateRules, SignumFollowsItsDefinition) {
  compare(signum({.momentum = 0.7, .decoupled_decay = 0.3}),
          [](double w, double g, double* s, int) {
            s[0] = 0.7 * s[0] + 0.3 * (g + kDecay * w);
            return (1 - kRate * 0.3) * w - kRate * signum_of(s[0]);
          });
}

TEST(UpdateRules, SignumWithoutMomentumTakesTheGradientsSign) {
  compare(signum({.momentum = 0.0}),
          [](double w, double g, double*, int) { return w - kRate * signum_of(g + kDecay * w); });
}

double adam_direction(double g, double* s, int t, double beta1, double beta2, double epsilon) {
  s[0] = beta1 * s[0] + (1 - beta1) * g;
  s[1] = beta2 * s[1] + (1 - beta2) * g * g;
  const double mean = s[0] / (1 - std::pow(beta1, t));
  const double square = s[1] / (1 - std::pow(beta2, t));
  return mean / (std::sqrt(square) + epsilon);
}

TEST(UpdateRules, AdamFollowsItsDefinition) {
  compare(adam({.beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-3}),
          [](double w, double g, double* s, int t) {
            return w - kRate * adam_direction(g + kDecay * w, s, t, 0.8, 0.95, 1e-3);
          });
}

// beta2 is small, so that the mean of squares falls now and then.
double ams_grad_direction(double g, double* s, int t) {
  s[0] = 0.8 * s[0] + 0.2 * g;
  s[1] = 0.5 * s[1] + 0.5 * g * g;
  s[2] = std::max(s[2], s[1]);
  const double square = s[2] / (1 - std::pow(0.5, t));
  return s[0] / (1 - std::pow(0.8, t)) / (std::sqrt(square) + 1e-3);
}

TEST(UpdateRules, AmsGradDividesByTheLargestMeanSoFar) {
  const AdamOptions options{.beta1 = 0.8, .beta2 = 0.5, .epsilon = 1e-3, .amsgrad = true};
  compare(adam(options), [](double w, double g, double* s, int t) {
    return w - kRate * ams_grad_direction(g + kDecay * w, s, t);
  });
  compare(adamw({.beta1 = 0.8, .beta2 = 0.5, .epsilon = 1e-3, .amsgrad = true}),
          [](double w, double g, double* s, int t) {
            return w * (1 - kRate * kDecay) - kRate * ams_grad_direction(g, s, t);
          });
}

TEST(UpdateRules, AdamWDecaysBesideTheGradient) {
  compare(adamw({.beta1 = 0.8, .beta2 = 0.95}), [](double w, double g, double* s, int t) {
    return w * (1 - kRate * kDecay) - kRate * adam_direction(g, s, t, 0.8, 0.95, 1e-8);
  });
}

TEST(UpdateRules, AdamaxFollowsItsDefinition) {
  compare(adamax({.beta1 = 0.8, .beta2 = 0.95}), [](double w, double g, double* s, int t) {
    g += kDecay * w;
    s[0] = 0.8 * s[0] + 0.2 * g;
    s[1] = std::max(0.95 * s[1], std::abs(g));
    return w - kRate / (1 - std::pow(0.8, t)) * s[0] / (s[1] + 1e-8);
  });
}

double nadam_momentum(double beta1, double decay, int t) {
  return beta1 * (1 - 0.5 * std::pow(0.96, t * decay));
}

Element naive_nadam(double beta1, double decay) {
  return [=](double w, double g, double* s, int t) {
    g += kDecay * w;
    double product = 1;
    for (int i = 1; i <= t; ++i) product *= nadam_momentum(beta1, decay, i);
    const double now = nadam_momentum(beta1, decay, t);
    const double next = nadam_momentum(beta1, decay, t + 1);
    s[0] = beta1 * s[0] + (1 - beta1) * g;
    s[1] = 0.95 * s[1] + 0.05 * g * g;
    const double divisor = std::sqrt(s[1] / (1 - std::pow(0.95, t))) + 1e-8;
    return w -
           kRate * ((1 - now) / (1 - product) * g + next / (1 - product * next) * s[0]) / divisor;
  };
}

TEST(UpdateRules, NadamFollowsItsDefinition) {
  compare(nadam({.beta1 = 0.9, .beta2 = 0.95}), naive_nadam(0.9, 0.004));
  compare(nadam({.beta1 = 0.99, .beta2 = 0.95, .schedule_decay = 3.0}), naive_nadam(0.99, 3.0));
  compare(nadam({.beta1 = 0.9, .beta2 = 0.95, .schedule_decay = 0.0}), naive_nadam(0.9, 0.0));
  compare(nadam({.beta1 = 0.0, .beta2 = 0.95}), naive_nadam(0.0, 0.004));
}

TEST(UpdateRules, AdaGradFollowsItsDefinition) {
  compare(adagrad({.epsilon = 1e-4}), [](double w, double g, double* s, int) {
    g += kDecay * w;
    s[0] += g * g;
    return w - kRate * g / (std::sqrt(s[0]) + 1e-4);
  });
}

TEST(UpdateRules, AdaDeltaFollowsItsDefinition) {
  compare(adadelta({.rho = 0.8, .epsilon = 1e-3}), [](double w, double g, double* s, int) {
    g += kDecay * w;
    s[0] = 0.8 * s[0] + 0.2 * g * g;
    const double delta = std::sqrt(s[1] + 1e-3) / std::sqrt(s[0] + 1e-3) * g;
    s[1] = 0.8 * s[1] + 0.2 * delta * delta;
    return w - kRate * delta;
  });
}

Element naive_rmsprop(double momentum, bool centered) {
  return [=](double w, double g, double* s, int) {
    g += kDecay * w;
    s[0] = 0.8 * s[0] + 0.2 * g * g;
    s[1] = 0.8 * s[1] + 0.2 * g;
    const double variance = centered ? s[0] - s[1] * s[1] : s[0];
    s[2] = momentum * s[2] + g / (std::sqrt(variance) + 1e-3);
    return w - kRate * s[2];
  };
}

TEST(UpdateRules, RmsPropFollowsItsDefinition) {
  for (const double momentum : {0.0, 0.9})
    for (const bool centered : {false, true})
      compare(rmsprop({.rho = 0.8, .momentum = momentum, .epsilon = 1e-3, .centered = centered}),
              naive_rmsprop(momentum, centered));
}

TEST(UpdateRules, FtrlFollowsItsDefinition) {
  compare(ftrl({.lambda1 = 0.4, .beta = 0.5}), [](double w, double g, double* s, int) {
    const double sigma = (std::sqrt(s[1] + g * g) - std::sqrt(s[1])) / kRate;
    s[0] += g - sigma * w;
    s[1] += g * g;
    if (std::abs(s[0]) <= 0.4) return 0.0;
    return -(s[0] - signum_of(s[0]) * 0.4) / ((0.5 + std::sqrt(s[1])) / kRate + kDecay);
  });
}

TEST(UpdateRules, FtrlAtRateZeroChangesNothing) {
  const auto rule = ftrl();
  RuleState state(*rule, random_floats(9, 1));
  const RuleState before = state;
  run_step(*rule, {.learning_rate = 0.0}, state, random_floats(9, 2));
  EXPECT_EQ(state, before);
}

double norm(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

TEST(UpdateRules, LarsFollowsItsDefinition) {
  constexpr std::size_t kCount = 1031;
  const auto rule = lars({.momentum = 0.9, .eta = 0.1});
  RuleState state(*rule, random_floats(kCount, 1));
  std::vector<double> naive(state.weight.begin(), state.weight.end());
  std::vector<double> buffer(kCount);
  for (int t = 1; t <= kSteps; ++t) {
    const auto gradient = random_floats(kCount, static_cast<std::uint32_t>(t));
    run_step(*rule, {.step = t, .learning_rate = kRate, .weight_decay = kDecay}, state, gradient);
    const double size = norm(naive);
    const double slope = norm({gradient.begin(), gradient.end()});
    const double rate = kRate * 0.1 * size / (slope + kDecay * size + 1e-8);
    for (std::size_t i = 0; i < kCount; ++i) {
      buffer[i] = 0.9 * buffer[i] + rate * (double{gradient[i]} + kDecay * naive[i]);
      naive[i] -= buffer[i];
    }
    expect_near(state, naive, t);
  }
}

void compare_lamb(const LambOptions& options) {
  constexpr std::size_t kCount = 1031;
  const auto rule = lamb(options);
  RuleState state(*rule, random_floats(kCount, 1));
  std::vector<double> naive(state.weight.begin(), state.weight.end());
  std::vector<double> direction(kCount);
  std::vector<std::array<double, 2>> kept(kCount);
  for (int t = 1; t <= kSteps; ++t) {
    const auto gradient = random_floats(kCount, static_cast<std::uint32_t>(t));
    run_step(*rule, {.step = t, .learning_rate = kRate, .weight_decay = kDecay}, state, gradient);
    const int corrected = options.bias_correction ? t : 1'000'000;
    for (std::size_t i = 0; i < kCount; ++i)
      direction[i] =
          adam_direction(double{gradient[i]}, kept[i].data(), corrected, 0.8, 0.95, 1e-6) +
          kDecay * naive[i];
    double size = std::max(norm(naive), options.lower_bound);
    if (options.upper_bound > 0) size = std::min(size, options.upper_bound);
    const double rate = kRate * size / norm(direction);
    for (std::size_t i = 0; i < kCount; ++i) naive[i] -= rate * direction[i];
    expect_near(state, naive, t);
  }
}

TEST(UpdateRules, LambFollowsItsDefinition) {
  compare_lamb({.beta1 = 0.8, .beta2 = 0.95});
  compare_lamb({.beta1 = 0.8, .beta2 = 0.95, .upper_bound = 3.0});
  compare_lamb({.beta1 = 0.8, .beta2 = 0.95, .lower_bound = 99.0, .bias_correction = false});
}

TEST(UpdateRules, LayerwiseRulesTakeTheRateItselfWhereANormIsZero) {
  for (const auto& rule : {lars({.momentum = 0.0}), lamb({.beta1 = 0.0, .beta2 = 0.0})}) {
    RuleState state(*rule, {0.0F, 0.0F});
    run_step(*rule, {.learning_rate = 0.5}, state, {1.0F, -1.0F});
    EXPECT_NEAR(state.weight[0], -0.5F, 1e-5) << rule->name();
    EXPECT_NEAR(state.weight[1], 0.5F, 1e-5) << rule->name();
  }
}

}  // namespace
}  // namespace lockstep::optim
