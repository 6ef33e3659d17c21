// SPDX-License-Identifier: Apache-2.0
#include "lockstep/graph/recorded_function.h"

#include <gtest/gtest.h>

#include "lockstep/autograd/autograd.h"
#include "lockstep/graph/differentiate.h"
#include "lockstep/graph/split.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/matmul.h"
#include "lockstep/ops/random_ops.h"
#include "lockstep/ops/reduce.h"
#include "lockstep/ops/unary.h"

namespace lockstep {
namespace {

Tensor some(const Shape& shape, std::uint64_t seed) {
  const RandomScope draws(random_key(seed));
  return normal(shape);
}

// Two outputs that share work, and an extra that has no gradient.
RecordedFunction::Results squared_and_cut_product(const std::vector<Tensor>& x) {
  const Tensor hidden = tanh(matmul(x[0], x[1]));
  return {{multiply(hidden, hidden), relu(hidden)}, {sum(hidden)}};
}

std::vector<float> numbers(const Tensor& x) { return x.to_vector<float>(); }

TEST(RecordedFunction, HasTheGradientsOfItsOpsOneByOne) {
  const Tensor a = some({3, 4}, 1), b = some({4, 2}, 2);
  autograd::attach_grad(a);
  autograd::attach_grad(b);
  RecordedFunction function(squared_and_cut_product, {a.info(), b.info()}, {0, 1});
  std::vector<std::vector<float>> results[2];
  for (const bool compiled : {false, true}) {
    RecordedFunction::Results made;
    Tensor loss;
    {
      const autograd::RecordScope record;
      made = compiled ? function({a, b}) : squared_and_cut_product({a, b});
      loss = add(sum(made.outputs[0]), multiply(sum(made.outputs[1]), 3.0));
    }
    autograd::backward(loss);
    results[compiled] = {numbers(made.outputs[0]), numbers(made.extras[0]),
                         numbers(autograd::gradient(a)), numbers(autograd::gradient(b))};
  }
  for (std::size_t i = 0; i < results[0].size(); ++i)
    for (std::size_t j = 0; j < results[0][i].size(); ++j)
      EXPECT_NEAR(results[0][i][j], results[1][i][j], 1e-5) << i << ", " << j;
}

TEST(RecordedFunction, CallsThatWaitForTheirGradientDoNotDisturbEachOther) {
  const Tensor a = some({2, 2}, 1), b = some({2, 2}, 2), c = some({2, 2}, 3);
  for (const Tensor& x : {a, b, c}) autograd::attach_grad(x);
  RecordedFunction function(squared_and_cut_product, {a.info(), b.info()}, {0, 1});
  Tensor first, second;
  {
    const autograd::RecordScope record;
    first = sum(function({a, b}).outputs[0]);
    second = sum(function({c, b}).outputs[0]);
  }
  autograd::backward(first);
  const std::vector<float> made = numbers(autograd::gradient(a));
  {
    const autograd::RecordScope record;
    first = sum(squared_and_cut_product({a, b}).outputs[0]);
  }
  autograd::backward(first);
  const std::vector<float> expected = numbers(autograd::gradient(a));
  for (std::size_t i = 0; i < made.size(); ++i) EXPECT_NEAR(made[i], expected[i], 1e-5);
  EXPECT_NO_THROW(autograd::backward(second));
}

TEST(RecordedFunction, DrawsTheSameNumbersInBackwardAndOthersInTheNextCall) {
  const Tensor x = Tensor::full({64}, 1.0);
  autograd::attach_grad(x);
  RecordedFunction function(
      [](const std::vector<Tensor>& inputs) -> RecordedFunction::Results {
        return {{dropout(inputs[0], 0.5)}, {}};
      },
      {x.info()}, {0});
  std::vector<std::vector<float>> masks;
  const RandomScope draws(random_key(3));
  for (int i = 0; i < 2; ++i) {
    Tensor y;
    {
      const autograd::RecordScope record;
      y = function({x}).outputs[0];
    }
    autograd::backward(y);
    EXPECT_EQ(numbers(autograd::gradient(x)), numbers(y));
    masks.push_back(numbers(y));
  }
  EXPECT_NE(masks[0], masks[1]);
}

TEST(RecordedFunction, RefusesGradientsOfItsGradient) {
  const Tensor a = some({2, 2}, 1), b = some({2, 2}, 2);
  autograd::attach_grad(a);
  RecordedFunction function(squared_and_cut_product, {a.info(), b.info()}, {0});
  const autograd::RecordScope record;
  const Tensor y = sum(function({a, b}).outputs[0]);
  EXPECT_THROW(autograd::grad({y}, {a}, {}, true), InvalidArgument);
}

TEST(Split, TheSecondPartReadsWhatTheFirstHasMade) {
  const Graph graph = trace(
      [](const std::vector<Tensor>& x) {
        const Tensor y = exp(x[0]);
        return std::vector<Tensor>{add(y, 1.0), multiply(y, x[1])};
      },
      {{{2}, DType::float32, {}}, {{2}, DType::float32, {}}});
  const TwoParts parts = split(graph, 1, 1);
  EXPECT_EQ(parts.first.outputs().size(), 2u);
  EXPECT_EQ(parts.kept, std::vector<std::size_t>{1});
  const Tensor x = some({2}, 1), z = some({2}, 2);
  const std::vector<Tensor> first = interpret(parts.first, std::vector<Tensor>{x});
  const std::vector<Tensor> second =
      interpret(parts.second, std::vector<Tensor>{x, first[parts.kept[0]], z});
  const std::vector<Tensor> whole = interpret(graph, std::vector<Tensor>{x, z});
  EXPECT_EQ(numbers(first[0]), numbers(whole[0]));
  EXPECT_EQ(numbers(second[0]), numbers(whole[1]));
}

TEST(Split, FirstOutputsMayNotDependOnLaterInputs) {
  const Graph graph =
      trace([](const std::vector<Tensor>& x) { return std::vector<Tensor>{add(x[0], x[1])}; },
            {{{2}, DType::float32, {}}, {{2}, DType::float32, {}}});
  EXPECT_THROW(split(graph, 1, 1), InvalidArgument);
}

TEST(Differentiate, TakesTheGradientsOfSeveralHeads) {
  const Graph graph = trace(
      [](const std::vector<Tensor>& x) {
        return std::vector<Tensor>{multiply(x[0], 2.0), multiply(x[0], x[0])};
      },
      {{{2}, DType::float32, {}}});
  const Graph both = differentiate(graph, std::vector<std::size_t>{0, 1}, {0});
  const Tensor x = Tensor::from(std::vector<float>{3, 5}, {2});
  const Tensor one = Tensor::from(std::vector<float>{1, 10}, {2});
  const Tensor two = Tensor::from(std::vector<float>{100, 0}, {2});
  EXPECT_EQ(numbers(interpret(both, std::vector<Tensor>{x, one, two}).back()),
            (std::vector<float>{602, 20}));
}

}  // namespace
}  // namespace lockstep
