// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "lockstep/autograd/autograd.h"
#include "lockstep/ops/ops.h"
#include "tests/ops/calls.h"
#include "tests/ops/op_cases.h"

// Whatever is added to all logits, probabilities are the same. The offsets and logits here are
// whole numbers that float32 holds, so nothing is lost before the op begins.
namespace lockstep::testing {
namespace {

constexpr double kOffsets[] = {1e4, -1e4, 65536.0, 1e6, -1e6};

Tensor logits(double offset) {
  return cast(Tensor::from(std::vector<double>{0, 1, 2, 3, 3, 2, 0, 1}, {2, 4}) + offset,
              DType::float32);
}

Tensor gradient_of(Tensor x, const std::function<Tensor(const Tensor&)>& f) {
  autograd::attach_grad(x);
  const autograd::RecordScope record;
  autograd::backward(f(x));
  return autograd::gradient(x);
}

void expect_offset_changes_nothing(const std::function<Tensor(const Tensor&)>& f) {
  const Tensor expected = f(logits(0.0));
  for (double offset : kOffsets) expect_near(f(logits(offset)), expected, 1e-6);
}

TEST(LargeLogits, LogSoftmaxIsExact) {
  for (int axis : {0, 1})
    expect_offset_changes_nothing([=](const Tensor& x) { return log_softmax(x, axis); });
}

TEST(LargeLogits, GradientsAreExact) {
  const Tensor labels = Tensor::from(std::vector<std::int64_t>{1, 2}, {2});
  const Tensor targets =
      Tensor::from(std::vector<float>{0.1f, 0.2f, 0.3f, 0.4f, 0.25f, 0.25f, 0.5f, 0}, {2, 4});
  const Tensor weights = Tensor::from(std::vector<float>{1, 2, -1, 3}, {4});
  const std::function<Tensor(const Tensor&)> functions[] = {
      [&](const Tensor& x) { return sum(softmax_cross_entropy(x, labels)); },
      [&](const Tensor& x) { return sum(softmax_cross_entropy(x, labels, 0.1)); },
      [&](const Tensor& x) { return sum(softmax_cross_entropy(x, targets, 0.1)); },
      [&](const Tensor& x) { return sum(log_softmax(x) * weights); },
      [&](const Tensor& x) { return sum(softmax(x) * weights); },
      [&](const Tensor& x) { return sum(logsumexp(x, {1})); }};
  for (const auto& f : functions)
    expect_offset_changes_nothing([&](const Tensor& x) { return gradient_of(x, f); });
}

TEST(LargeLogits, GradientsOfGradientsAreExact) {
  const Tensor labels = Tensor::from(std::vector<std::int64_t>{1, 2}, {2});
  const Tensor weights = Tensor::from(std::vector<float>{1, 2, -1, 3}, {4});
  expect_offset_changes_nothing([&](Tensor x) {
    autograd::attach_grad(x);
    const autograd::RecordScope record;
    const Tensor first = autograd::grad({sum(softmax_cross_entropy(x, labels))}, {x}, {}, true)[0];
    return autograd::grad({sum(first * weights)}, {x})[0];
  });
}

// Scores that are all large: the first number of every query and key is.
TEST(LargeLogits, AttentionsGradientsAreExact) {
  const auto gradients = [](float large) {
    std::vector<float> q(16, 0.0f), k(16, 0.0f), v(16);
    for (std::size_t i = 0; i < 16; ++i) {
      q[i] = i % 4 == 0 ? large : static_cast<float>(i % 3);
      k[i] = i % 4 == 0 ? large : static_cast<float>(i % 5) * 0.5f;
      v[i] = static_cast<float>(i % 7) - 3.0f;
    }
    std::vector<Tensor> qkv;
    for (const auto& values : {q, k, v}) qkv.push_back(Tensor::from(values, {1, 1, 4, 4}));
    for (const Tensor& x : qkv) autograd::attach_grad(x);
    {
      const autograd::RecordScope record;
      const Tensor y = scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], {}, false, 1.0);
      autograd::backward(sum(y * y));
    }
    // The first column of the others' gradients has the large number as a factor.
    return std::vector<Tensor>{slice_axis(autograd::gradient(qkv[0]), 3, 1, 4),
                               slice_axis(autograd::gradient(qkv[1]), 3, 1, 4),
                               autograd::gradient(qkv[2])};
  };
  const std::vector<Tensor> expected = gradients(0.0f);
  for (float large : {64.0f, 128.0f, 512.0f}) {
    const std::vector<Tensor> got = gradients(large);
    for (std::size_t i = 0; i < got.size(); ++i) expect_near(got[i], expected[i], 2e-5);
  }
}

}  // namespace
}  // namespace lockstep::testing
