// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/random_ops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "lockstep/ops/reduce.h"
#include "tests/message.h"

namespace lockstep {
namespace {

using testing::message_of;

template <class F>
std::vector<double> drawn(std::uint64_t seed, F&& f) {
  const RandomScope scope(random_key(seed, 3, 1));
  return f().template to_vector<double>();
}

TEST(Random, ElementsDependOnTheirIndexAlone) {
  const auto expect_prefix = [](auto&& draw) {
    const auto few = drawn(7, [&] { return draw(Shape{10}); });
    auto many = drawn(7, [&] { return draw(Shape{40, 50}); });
    many.resize(10);
    EXPECT_EQ(few, many);
  };
  expect_prefix([](const Shape& shape) { return uniform(shape); });
  expect_prefix([](const Shape& shape) { return normal(shape); });
  expect_prefix([](const Shape& shape) { return bernoulli(shape); });
  expect_prefix([](const Shape& shape) { return randint(0, 1000, shape); });
}

TEST(Random, ElementsAreThePhiloxWordsOfTheirKey) {
  const RandomScope scope(random_key(0x1234567890abcdefu, 3, 1));
  uniform({2});
  const auto values = uniform({5000}).to_vector<float>();
  const RandomKey key{0x1234567890abcdefu, 3, 1, 1};
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(values[i], unit_float(random_bits(key, i))) << i;
}

TEST(Random, Float64UniformsHaveAllTheirBits) {
  const RandomScope scope(random_key(5));
  const auto values = uniform({1000}, 0.0, 1.0, DType::float64).to_vector<double>();
  std::uint64_t seen = 0;
  for (double value : values) {
    ASSERT_GE(value, 0.0);
    ASSERT_LT(value, 1.0);
    const double scaled = value * 0x1p53;
    ASSERT_EQ(scaled, std::floor(scaled));
    seen |= static_cast<std::uint64_t>(scaled);
  }
  EXPECT_EQ(seen, (std::uint64_t{1} << 53) - 1);
}

TEST(Random, NormalsAreBoxMullerPairs) {
  const RandomScope scope(random_key(5));
  const auto values = normal({2050}).to_vector<double>();
  for (std::uint64_t i = 0; i < values.size(); ++i) {
    const RandomKey key{.seed = 5};
    const double u = ((random_bits(key, i & ~1ull) >> 8) + 1.0) * 0x1p-24;
    const double angle = 2.0 * std::numbers::pi * (random_bits(key, i | 1ull) >> 8) * 0x1p-24;
    const double radius = std::sqrt(-2.0 * std::log(u));
    ASSERT_NEAR(values[i], radius * (i % 2 ? std::sin(angle) : std::cos(angle)), 2e-6) << i;
  }
}

TEST(Random, MomentsAreThoseOfTheDistribution) {
  const RandomScope scope(random_key(1));
  const Shape many{400000};
  const Tensor u = uniform(many, -1.0, 3.0), n = normal(many, 2.0, 3.0);
  EXPECT_NEAR(mean(u).item(), 1.0, 0.01);
  EXPECT_NEAR(var(u).item(), 16.0 / 12.0, 0.01);
  EXPECT_NEAR(mean(n).item(), 2.0, 0.02);
  EXPECT_NEAR(var(n).item(), 9.0, 0.1);
  EXPECT_NEAR(mean(bernoulli(many, 0.3)).item(), 0.3, 0.005);
  EXPECT_NEAR(mean(randint(-5, 6, many)).item(), 0.0, 0.02);
}

TEST(Random, UniformStaysBelowItsUpperEnd) {
  for (DType dtype : {DType::float32, DType::float16, DType::bfloat16}) {
    const RandomScope scope(random_key(2));
    for (const auto& [low, high] : {std::pair(0.0, 1.0), {1.0, 2.0}, {-3.0, 0.0}, {-8.0, -7.0}}) {
      const Tensor x = uniform({100000}, low, high, dtype);
      EXPECT_LT(max(x).item(), high) << name_of(dtype);
      EXPECT_GE(min(x).item(), low) << name_of(dtype);
    }
  }
}

TEST(Random, BernoulliKnowsCertainty) {
  const RandomScope scope(random_key(2));
  EXPECT_EQ(sum(bernoulli({10000}, 1.0)).item(), 10000.0);
  EXPECT_EQ(sum(bernoulli({10000}, 0.0)).item(), 0.0);
}

TEST(Random, RandintReachesItsEndsAndNoFurther) {
  const RandomScope scope(random_key(2));
  const Tensor x = randint(-2, 3, {10000}, DType::int8);
  EXPECT_EQ(min(x).item(), -2.0);
  EXPECT_EQ(max(x).item(), 2.0);
  const Tensor wide = randint(INT64_MIN, INT64_MAX, {100});
  EXPECT_LT(min(wide).item(), -0x1p60);
  EXPECT_GT(max(wide).item(), 0x1p60);
}

TEST(Random, APermutationHasEveryNumberOnce) {
  auto order = drawn(3, [] { return permutation(1000); });
  EXPECT_NE(order, drawn(4, [] { return permutation(1000); }));
  std::sort(order.begin(), order.end());
  std::vector<double> all(1000);
  std::iota(all.begin(), all.end(), 0.0);
  EXPECT_EQ(order, all);
}

TEST(Random, UsesCountUpUnderAScopeAndScopesNest) {
  const RandomScope outer(random_key(1));
  EXPECT_EQ(RandomScope::next("uniform").use, 0);
  {
    const RandomScope inner(random_key(2, 9));
    const RandomScope::Draw draw = RandomScope::next("uniform");
    EXPECT_EQ(draw.use, 0);
    EXPECT_EQ(draw.key.to_vector<int>(), (std::vector<int>{2, 9, 0}));
  }
  EXPECT_EQ(RandomScope::next("uniform").use, 1);
}

TEST(Random, WithoutAScopeADrawIsRefused) {
  const std::string rest = ": needs a RandomScope, which gives the draw its key";
  EXPECT_EQ(message_of([] { uniform({2}); }), "uniform" + rest);
  EXPECT_EQ(message_of([] { normal({2}); }), "normal" + rest);
  EXPECT_EQ(message_of([] { bernoulli({2}); }), "bernoulli" + rest);
  EXPECT_EQ(message_of([] { randint(0, 2, {2}); }), "randint" + rest);
  EXPECT_EQ(message_of([] { permutation(2); }), "permutation" + rest);
  EXPECT_EQ(message_of([] { dropout(Tensor::zeros({2}), 0.5); }), "dropout" + rest);
}

TEST(Random, BadParametersAreRefused) {
  const RandomScope outer(random_key(1));
  EXPECT_EQ(message_of([] { uniform({2}, 1.0, 0.0); }),
            "uniform: low is 1, high is 0, expected low <= high");
  EXPECT_EQ(message_of([] { uniform({2}, 0.0, 1.0, DType::int32); }),
            "uniform: dtype is int32, expected a floating one");
  EXPECT_EQ(message_of([] { uniform({-2}); }), "uniform: shape [-2] has a negative size");
  EXPECT_EQ(message_of([] { normal({2}, 0.0, -1.0); }), "normal: stddev is -1, expected 0 or more");
  EXPECT_EQ(message_of([] { bernoulli({2}, 1.5); }), "bernoulli: p is 1.5, expected 0 to 1");
  EXPECT_EQ(message_of([] { randint(3, 3, {2}); }),
            "randint: low is 3, high is 3, expected low < high");
  EXPECT_EQ(message_of([] { randint(0, 300, {2}, DType::uint8); }),
            "randint: 0..299 does not fit uint8");
  EXPECT_EQ(message_of([] { permutation(-1); }), "permutation: n is -1, expected 0 or more");
  const RandomScope scope(Tensor::zeros({2}));
  EXPECT_EQ(message_of([] { uniform({2}); }), "uniform: key is float32[2], expected int64[3]");
}

// The share of each class among many draws.
std::vector<double> shares(const Tensor& drawn, std::size_t classes) {
  std::vector<double> counts(classes, 0.0);
  for (std::int64_t c : drawn.to_vector<std::int64_t>())
    counts[static_cast<std::size_t>(c)] += 1.0 / static_cast<double>(drawn.numel());
  return counts;
}

TEST(Categorical, ClassesComeAsOftenAsTheyAreLikely) {
  const RandomScope scope(random_key(11));
  const Tensor p = Tensor::from(std::vector<double>{1, 0, 4, 5}, {4});
  const auto got = shares(multinomial(p, 100000), 4);
  EXPECT_NEAR(got[0], 0.1, 0.005);
  EXPECT_EQ(got[1], 0.0);
  EXPECT_NEAR(got[2], 0.4, 0.008);
  EXPECT_NEAR(got[3], 0.5, 0.008);
}

// Of the weights 1, 2, 5 the first draw is the last class with 5/8, and the pair {1, 2} comes with
// 2/8 * 5/6 + 5/8 * 2/3.
TEST(Categorical, WithoutReplacementTheOrderIsThatOfDrawsOneAfterTheOther) {
  const RandomScope scope(random_key(12));
  const std::int64_t rows = 50000;
  std::vector<double> weights;
  for (std::int64_t i = 0; i < rows; ++i) weights.insert(weights.end(), {1, 2, 5});
  const Tensor drawn = multinomial(Tensor::from(weights, {rows, 3}), 2, false);
  const auto values = drawn.to_vector<std::int64_t>();
  double last_first = 0, without_the_first = 0;
  for (std::size_t i = 0; i < values.size(); i += 2) {
    EXPECT_NE(values[i], values[i + 1]);
    last_first += values[i] == 2;
    without_the_first += values[i] != 0 && values[i + 1] != 0;
  }
  EXPECT_NEAR(last_first / rows, 5.0 / 8.0, 0.01);
  EXPECT_NEAR(without_the_first / rows, 2.0 / 8.0 * 5.0 / 6.0 + 5.0 / 8.0 * 2.0 / 3.0, 0.01);
}

TEST(Categorical, TheKeyAndTheUseDecideAlone) {
  const Tensor logits = Tensor::zeros({3, 50});
  const auto draw = [&](std::uint64_t seed) {
    return drawn(seed, [&] { return categorical(logits, 40); });
  };
  EXPECT_EQ(draw(1), draw(1));
  EXPECT_NE(draw(1), draw(2));
  const RandomScope scope(random_key(1, 3, 1));
  EXPECT_EQ(categorical(logits, 40).to_vector<double>(), draw(1));
  EXPECT_NE(categorical(logits, 40).to_vector<double>(), draw(1));
}

TEST(Categorical, RowsThatGiveNoProbabilitiesAreNamed) {
  const RandomScope scope(random_key(1));
  EXPECT_EQ(message_of([] {
              multinomial(Tensor::from(std::vector<float>{1, 1, 0, 0}, {2, 2}));
            }),
            "multinomial: row 1 gives no probabilities: every class has probability 0");
  EXPECT_EQ(message_of([] {
              multinomial(Tensor::from(std::vector<float>{1, -1}, {2}));
            }),
            "multinomial: row 0 gives no probabilities: a logit is NaN or infinite");
  EXPECT_EQ(message_of([] {
              multinomial(Tensor::from(std::vector<float>{1, 1, 0}, {3}), 3, false);
            }),
            "multinomial: row 0 has 2 classes of a probability above 0, 3 are drawn without "
            "replacement");
  EXPECT_EQ(message_of([] { categorical(Tensor::zeros({3}), 4, false); }),
            "categorical: count is 4, of 3 classes without replacement");
  EXPECT_EQ(message_of([] { categorical(Tensor::scalar(1)); }),
            "categorical: logits have shape [], expected [..., classes]");
}

}  // namespace
}  // namespace lockstep
