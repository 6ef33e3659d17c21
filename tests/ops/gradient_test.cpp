// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "lockstep/autograd/autograd.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/tensor/philox.h"
#include "tests/ops/check_cases.h"

namespace lockstep::testing {
namespace {

constexpr double kStep = 1e-6;
constexpr std::size_t kSamples = 10;  // elements of one input that are moved one by one
constexpr std::int64_t kSmall = 400;  // elements of a case that is worth second derivatives

// Random weights of a sum over every floating output that the reference knows.
struct Functional {
  std::vector<std::size_t> outputs;
  Tensors weights;

  double operator()(const Tensors& y) const {
    double total = 0.0;
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      const auto values = y[outputs[k]].to_vector<double>();
      const auto weight = weights[k].to_vector<double>();
      for (std::size_t i = 0; i < values.size(); ++i) total += values[i] * weight[i];
    }
    return total;
  }
};

Functional random_functional(const OpCase& c, const Tensors& y) {
  const Tensors known = c.reference ? c.reference(c.inputs) : y;
  Functional result;
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (!is_floating(y[i].dtype()) || !known[i].defined()) continue;
    result.outputs.push_back(i);
    Tensor weight = Tensor::empty(y[i].shape(), y[i].dtype());
    weight.assign(random_tensor(y[i].shape(), 1000 + i));
    result.weights.push_back(weight);
  }
  return result;
}

std::vector<std::size_t> floating_inputs(const Tensors& inputs) {
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (is_floating(inputs[i].dtype())) result.push_back(i);
  return result;
}

Tensors pick(const Tensors& all, const std::vector<std::size_t>& which) {
  Tensors result;
  for (std::size_t i : which) result.push_back(all[i]);
  return result;
}

// Inputs with history, and the tape's gradients of the functional for each floating one.
struct Taped {
  Tensors inputs;
  Tensors variables;
  Tensors gradients;
};

Taped taped_gradients(const OpDef& op, const Attrs& attrs, const Tensors& inputs,
                      const Functional& functional, bool create_graph) {
  Taped result;
  for (const Tensor& x : inputs) result.inputs.push_back(x.detach());
  result.variables = pick(result.inputs, floating_inputs(inputs));
  for (const Tensor& x : result.variables) autograd::attach_grad(x);
  Tensors y;
  {
    autograd::RecordScope record;
    y = apply(op, result.inputs, attrs);
  }
  Tensors heads;
  Tensors weights;
  for (std::size_t k = 0; k < functional.outputs.size(); ++k) {
    if (!autograd::requires_grad(y[functional.outputs[k]])) continue;
    heads.push_back(y[functional.outputs[k]]);
    weights.push_back(functional.weights[k]);
  }
  if (heads.empty()) throw InvalidArgument("{}: no output has a gradient", op.name);
  result.gradients = autograd::grad(heads, result.variables, weights, create_graph);
  return result;
}

// One way to move the inputs: along a direction for each floating one.
using Direction = std::vector<std::vector<double>>;

Tensors moved(const Tensors& inputs, const Direction& direction, double step) {
  Tensors result = inputs;
  const auto floating = floating_inputs(inputs);
  for (std::size_t k = 0; k < floating.size(); ++k) {
    auto values = inputs[floating[k]].to_vector<double>();
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += step * direction[k][i];
    result[floating[k]] = Tensor::from(values, inputs[floating[k]].shape());
  }
  return result;
}

double dot(const Tensors& gradients, const Direction& direction) {
  double total = 0.0;
  for (std::size_t k = 0; k < gradients.size(); ++k) {
    const auto values = gradients[k].to_vector<double>();
    for (std::size_t i = 0; i < values.size(); ++i) total += values[i] * direction[k][i];
  }
  return total;
}

// A few single elements of each input, and one direction that moves all of them.
std::vector<Direction> directions_for(const Tensors& inputs) {
  std::vector<Direction> result;
  Direction zero;
  const auto floating = floating_inputs(inputs);
  for (std::size_t i : floating)
    zero.emplace_back(static_cast<std::size_t>(inputs[i].numel()), 0.0);
  const RandomKey key{.seed = 7};
  std::uint64_t draw = 0;
  for (std::size_t k = 0; k < zero.size(); ++k) {
    const std::size_t count = zero[k].size();
    for (std::size_t s = 0; s < std::min(count, kSamples); ++s) {
      Direction one = zero;
      one[k][count <= kSamples ? s : random_bits(key, draw++) % count] = 1.0;
      result.push_back(std::move(one));
    }
  }
  Direction all = zero;
  for (auto& part : all)
    for (double& v : part) v = 2.0 * unit_float(random_bits(key, draw++)) - 1.0;
  result.push_back(std::move(all));
  return result;
}

std::string name_of_direction(const Direction& direction) {
  for (std::size_t k = 0; k < direction.size(); ++k)
    for (std::size_t i = 0; i < direction[k].size(); ++i)
      if (direction[k][i] == 1.0) return fmt::format("floating input {}, element {}", k, i);
  return "all elements at once";
}

void expect_value_near(double got, double want, double tolerance, const Direction& direction) {
  const double bound = tolerance * std::max({1.0, std::abs(got), std::abs(want)});
  EXPECT_NEAR(got, want, bound) << name_of_direction(direction);
}

bool is_checked(const OpDef& op, const OpCase& c) {
  return op.differentiable() && c.check_gradient && has_floating(c.inputs) &&
         c.dtypes.has(DType::float64);
}

std::int64_t elements(const Tensors& tensors) {
  std::int64_t total = 0;
  for (const Tensor& x : tensors) total += x.numel();
  return total;
}

class Gradient : public ::testing::TestWithParam<CaseFamily> {};

TEST_P(Gradient, EqualsFiniteDifferences) {
  for_each_case(GetParam(), [](const OpDef& op, const OpCase& c) {
    if (!is_checked(op, c)) return;
    const auto value = [&](const Tensors& inputs) { return apply(op, inputs, c.attrs); };
    const Functional functional = random_functional(c, value(c.inputs));
    if (functional.outputs.empty()) return;
    const Taped taped = taped_gradients(op, c.attrs, c.inputs, functional, false);
    for (const Direction& direction : directions_for(c.inputs)) {
      const double after = functional(value(moved(c.inputs, direction, kStep)));
      const double before = functional(value(moved(c.inputs, direction, -kStep)));
      expect_value_near(dot(taped.gradients, direction), (after - before) / (2 * kStep),
                        c.gradient_tolerance, direction);
    }
  });
}

// The first gradient's product with a fixed direction is a number whose own gradient the tape and
// finite differences of the tape's first gradient must agree on.
TEST_P(Gradient, OfAGradientEqualsFiniteDifferences) {
  for_each_case(GetParam(), [](const OpDef& op, const OpCase& c) {
    if (!is_checked(op, c) || elements(c.inputs) > kSmall) return;
    const Functional functional = random_functional(c, apply(op, c.inputs, c.attrs));
    if (functional.outputs.empty()) return;
    const auto directions = directions_for(c.inputs);
    const Direction& fixed = directions.back();
    const auto slope = [&](const Tensors& inputs) {
      return dot(taped_gradients(op, c.attrs, inputs, functional, false).gradients, fixed);
    };
    const Taped taped = taped_gradients(op, c.attrs, c.inputs, functional, true);
    Tensors heads;
    Tensors weights;
    for (std::size_t k = 0; k < taped.gradients.size(); ++k) {
      if (!autograd::requires_grad(taped.gradients[k])) continue;
      heads.push_back(taped.gradients[k]);
      weights.push_back(Tensor::from(fixed[k], taped.gradients[k].shape()));
    }
    Tensors second;
    if (!heads.empty()) second = autograd::grad(heads, taped.variables, weights);
    for (std::size_t d = 0; d < directions.size(); d += 3) {
      const Direction& direction = directions[directions.size() - 1 - d];
      const double numeric =
          (slope(moved(c.inputs, direction, kStep)) - slope(moved(c.inputs, direction, -kStep))) /
          (2 * kStep);
      expect_value_near(dot(second, direction), numeric, 10 * c.gradient_tolerance, direction);
    }
  });
}

TEST_P(Gradient, CompiledEqualsTheTapes) {
  for_each_case(GetParam(), [](const OpDef& op, const OpCase& c) {
    if (!is_checked(op, c)) return;
    const Functional functional = random_functional(c, apply(op, c.inputs, c.attrs));
    if (functional.outputs.empty()) return;
    const auto function = [&](const Tensors& inputs) {
      return taped_gradients(op, c.attrs, inputs, functional, false).gradients;
    };
    const Tensors want = function(c.inputs);
    const Tensors plain = run_compiled(function, c.inputs, Compiled::plain);
    const Tensors optimised = run_compiled(function, c.inputs, Compiled::optimised);
    for (std::size_t k = 0; k < want.size(); ++k) {
      EXPECT_EQ(bit_difference(plain[k], want[k]), "") << "floating input " << k;
      EXPECT_EQ(difference(optimised[k], want[k], 1e-10), "") << "floating input " << k;
    }
  });
}

TEST_P(Gradient, OfFloat32IsCloseToThatOfFloat64) {
  for_each_case(GetParam(), [](const OpDef& op, const OpCase& c) {
    if (!is_checked(op, c) || !c.dtypes.has(DType::float32)) return;
    const Tensors narrow = with_dtype(c.inputs, DType::float32);
    const Tensors wide = with_dtype(narrow, DType::float64);
    const Functional exact = random_functional(c, apply(op, wide, c.attrs));
    if (exact.outputs.empty()) return;
    Functional rounded = exact;
    const Tensors y = apply(op, narrow, c.attrs);
    for (std::size_t k = 0; k < rounded.outputs.size(); ++k) {
      Tensor weight = Tensor::empty(y[rounded.outputs[k]].shape(), y[rounded.outputs[k]].dtype());
      weight.assign(exact.weights[k]);
      rounded.weights[k] = weight;
    }
    const Tensors got = taped_gradients(op, c.attrs, narrow, rounded, false).gradients;
    const Tensors want = taped_gradients(op, c.attrs, wide, exact, false).gradients;
    for (std::size_t k = 0; k < want.size(); ++k)
      EXPECT_EQ(difference(got[k], want[k], 20 * c.tolerance), "") << "floating input " << k;
  });
}

INSTANTIATE_TEST_SUITE_P(Ops, Gradient, ::testing::ValuesIn(case_families()),
                         [](const auto& family) { return family.param.name; });

}  // namespace
}  // namespace lockstep::testing
