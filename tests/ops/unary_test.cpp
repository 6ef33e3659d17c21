// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/unary.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "lockstep/autograd/autograd.h"
#include "lockstep/ops/catalogue.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/elementwise.h"
#include "tests/ops/calls.h"

namespace lockstep {
namespace {

using testing::message_of;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Accuracy {
  const char* op;
  double low, high;
  Tensor (*run)(const Tensor&);
  double (*exact)(double);
};

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

const Accuracy kAccuracies[] = {
    {"exp", -87, 88, exp, [](double x) { return std::exp(x); }},
    {"expm1", -4, 4, expm1, [](double x) { return std::expm1(x); }},
    {"log", 1e-3, 8, log, [](double x) { return std::log(x); }},
    {"log1p", -0.99, 8, log1p, [](double x) { return std::log1p(x); }},
    {"erf", -5, 5, erf, [](double x) { return std::erf(x); }},
    {"sin", -50, 50, sin, [](double x) { return std::sin(x); }},
    {"cos", -50, 50, cos, [](double x) { return std::cos(x); }},
    {"tanh", -10, 10, tanh, [](double x) { return std::tanh(x); }},
    {"sigmoid", -80, 80, sigmoid, [](double x) { return 1.0 / (1.0 + std::exp(-x)); }},
    {"softplus", -80, 80, softplus,
     [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }},
    {"gelu", -9, 9, [](const Tensor& x) { return gelu(x); },
     [](double x) { return x * normal_cdf(x); }},
    {"gelu by tanh", -1, 9, [](const Tensor& x) { return gelu(x, true); },
     [](double x) {
       return x / (1.0 + std::exp(-1.5957691216057308 * (x + 0.044715 * x * x * x)));
     }},
};

TEST(Unary, Float32FunctionsAreWithinFiveTenMillionths) {
  constexpr int kPoints = 100003;
  for (const Accuracy& a : kAccuracies) {
    std::vector<float> points(kPoints);
    for (int i = 0; i < kPoints; ++i)
      points[static_cast<std::size_t>(i)] =
          static_cast<float>(a.low + (a.high - a.low) * i / (kPoints - 1));
    const auto got = a.run(Tensor::from(points, {kPoints})).to_vector<float>();
    double worst = 0.0;
    for (std::size_t i = 0; i < points.size(); ++i) {
      const double want = a.exact(points[i]);
      if (want != 0.0) worst = std::max(worst, std::fabs(got[i] - want) / std::fabs(want));
    }
    EXPECT_LT(worst, 5e-7) << a.op;
  }
}

std::vector<float> on_edges(Tensor (*f)(const Tensor&)) {
  const std::vector<float> edges{kInfinity, -kInfinity, 0.0f, 200.0f, -200.0f};
  return f(Tensor::from(edges, {5})).to_vector<float>();
}

TEST(Unary, InfinitiesAndLargeValuesHaveTheirLimits) {
  const float root = std::sqrt(200.0f);
  EXPECT_EQ(on_edges(exp), (std::vector<float>{kInfinity, 0, 1, kInfinity, 0}));
  EXPECT_EQ(on_edges(expm1), (std::vector<float>{kInfinity, -1, 0, kInfinity, -1}));
  EXPECT_EQ(on_edges(tanh), (std::vector<float>{1, -1, 0, 1, -1}));
  EXPECT_EQ(on_edges(erf), (std::vector<float>{1, -1, 0, 1, -1}));
  EXPECT_EQ(on_edges(sigmoid), (std::vector<float>{1, 0, 0.5f, 1, 0}));
  const auto bent = on_edges([](const Tensor& x) { return gelu(x, true); });
  EXPECT_EQ(bent[0], kInfinity);
  EXPECT_EQ((std::vector<float>{bent.begin() + 2, bent.end()}), (std::vector<float>{0, 200, 0}));
  EXPECT_EQ(on_edges(log)[0], kInfinity);
  EXPECT_EQ(on_edges(log)[2], -kInfinity);
  EXPECT_TRUE(std::isnan(on_edges(log)[1]));
  EXPECT_EQ(on_edges(sqrt)[3], root);
  EXPECT_EQ(log1p(Tensor::scalar(-1.0)).item(), -kInfinity);
}

TEST(Unary, TheSlopeOfGeluIsZeroOrOneFarAway) {
  const Tensor x = Tensor::from(std::vector<float>{-1e18f, -2e13f, -50, 50, 2e13f, 1e18f}, {6});
  for (const bool approximate : {false, true}) {
    const Tensor slope = testing::call("gelu_backward", {Tensor::full({6}, 1.0), x},
                                       {{"approximate", AttrValue(approximate)}})[0];
    EXPECT_EQ(slope.to_vector<float>(), (std::vector<float>{0, 0, 0, 1, 1, 1})) << approximate;
  }
}

TEST(Unary, NotANumberStaysNotANumber) {
  const Tensor nan = Tensor::full({3}, std::nan(""));
  for (auto f : {exp, expm1, log, log1p, sqrt, rsqrt, erf, sin, cos, tanh, sigmoid, softplus, relu,
                 selu, silu, floor, abs})
    EXPECT_TRUE(std::isnan(f(nan).to_vector<float>()[0]));
  EXPECT_TRUE(std::isnan(gelu(nan).to_vector<float>()[0]));
  EXPECT_TRUE(std::isnan(leaky_relu(nan).to_vector<float>()[0]));
  EXPECT_TRUE(std::isnan(clip(nan, 0, 1).to_vector<float>()[0]));
}

// As exact as anywhere, but for results below the smallest normal number, which may be 0.
void expect_as_in_double(const char* name, Tensor (*run)(const Tensor&), double (*exact)(double),
                         const std::vector<float>& at) {
  const Tensor x = Tensor::from(at, {static_cast<std::int64_t>(at.size())});
  const std::vector<float> got = run(x).to_vector<float>();
  for (std::size_t i = 0; i < at.size(); ++i) {
    const auto want = static_cast<float>(exact(static_cast<double>(at[i])));
    if (std::isfinite(want))
      EXPECT_NEAR(got[i], want, 1e-6 * std::abs(want) + 1.2e-38) << name << " of " << at[i];
    else
      EXPECT_TRUE(got[i] == want || (std::isnan(got[i]) && std::isnan(want)))
          << name << " of " << at[i] << " is " << got[i];
  }
}

TEST(Unary, SpecialValuesAreRight) {
  std::vector<float> at{kInfinity, -kInfinity, std::nanf(""), -std::nanf("")};
  for (float size :
       {0.0f,  1e-45f, 1e-40f, 1.2e-38f, 1e-30f, 1e-10f, 1e-4f, 0.5f,  1.0f,  17.0f,  86.9f,
        88.0f, 88.7f,  88.8f,  103.0f,   110.0f, 1e4f,   1e10f, 1e19f, 1e30f, 3.4e38f})
    at.insert(at.end(), {size, -size});
  for (const Accuracy& f : kAccuracies)
    if (std::string_view(f.op) != "gelu" && std::string_view(f.op) != "gelu by tanh")
      expect_as_in_double(f.op, f.run, f.exact, at);
  const auto limits = [](double x) { return x > 0 ? x : std::isnan(x) ? x : -0.0; };
  std::vector<float> far;
  for (float x : at)
    if (!(std::abs(x) < 30.0f)) far.push_back(x);
  const auto gelu_at = [](const Tensor& x) { return gelu(x); };
  const auto gelu_by_tanh = [](const Tensor& x) { return gelu(x, true); };
  far.erase(far.begin() + 1);  // -inf * 0 is NaN, as in PyTorch
  expect_as_in_double("gelu", gelu_at, limits, far);
  expect_as_in_double("gelu by tanh", gelu_by_tanh, limits, far);
}

TEST(Unary, SinesOfLargeAnglesAreRight) {
  const std::vector<float> angles{1e5f, -3e7f, 1.0f, 1e30f};
  const auto got = sin(Tensor::from(angles, {4})).to_vector<float>();
  for (std::size_t i = 0; i < angles.size(); ++i) EXPECT_NEAR(got[i], std::sin(angles[i]), 2e-7);
}

TEST(Unary, RoundGoesToTheEvenNeighbour) {
  const Tensor x = Tensor::from(std::vector<float>{0.5f, 1.5f, 2.5f, -0.5f, -1.5f}, {5});
  EXPECT_EQ(round(x).to_vector<float>(), (std::vector<float>{0, 2, 2, 0, -2}));
}

TEST(Unary, IntegersStayWhereTheyCanAndBecomeFloat32WhereTheyMust) {
  const Tensor x = Tensor::full({2}, -4, DType::int32);
  EXPECT_EQ(abs(x).dtype(), DType::int32);
  EXPECT_EQ(relu(x).dtype(), DType::int32);
  EXPECT_EQ(exp(x).dtype(), DType::float32);
  EXPECT_EQ(gelu(x).dtype(), DType::float32);
}

TEST(Unary, SlopesOfExponentialUnitsKeepTheirPrecisionFarBelowZero) {
  const std::vector<double> values{-0.5, -3.0, -8.0, -16.0, -30.0};
  const std::pair<double, Tensor (*)(const Tensor&)> units[] = {
      {1.0, [](const Tensor& x) { return elu(x); }},
      {1.0507009873554805 * 1.6732632423543772, [](const Tensor& x) { return selu(x); }}};
  for (const auto& [factor, unit] : units) {
    const Tensor x = cast(Tensor::from(values, {5}), DType::float32);
    autograd::attach_grad(x);
    {
      const autograd::RecordScope record;
      autograd::backward(unit(x));
    }
    const std::vector<double> slopes = autograd::gradient(x).to_vector<double>();
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(slopes[i] / (factor * std::exp(values[i])), 1.0, 1e-6) << values[i];
  }
}

TEST(Unary, WrongInputsAreNamed) {
  const Tensor flag = Tensor::zeros({2}, DType::boolean);
  EXPECT_EQ(message_of([&] { negative(flag); }), "negative: got bool, expected numbers");
  const Tensor whole[] = {Tensor::zeros({2}, DType::int64)};
  EXPECT_EQ(message_of([&] { apply(get_op("exp"), whole); }),
            "exp: got int64, expected a floating dtype");
  EXPECT_EQ(message_of([] { tanh_backward(Tensor::zeros({2}), Tensor::zeros({3})); }),
            "tanh_backward: the gradient is float32[2], expected float32[3]");
  EXPECT_EQ(message_of([] { exp(Tensor()); }), "exp: input 0 is undefined");
}

}  // namespace
}  // namespace lockstep
