// SPDX-License-Identifier: Apache-2.0
// The training step of every family of models: compiled as eager.
#include <gtest/gtest.h>

#include <cmath>

#include "lockstep/graph/executable.h"
#include "lockstep/graph/trace.h"
#include "lockstep/nn/loss.h"
#include "lockstep/nn/models/models.h"
#include "lockstep/ops/random_ops.h"
#include "lockstep/train/step_graph.h"
#include "tests/ops/op_cases.h"

namespace lockstep::testing {
namespace {

namespace models = nn::models;
using train::StepGraph;

// Of all tensors as one long vector: some gradients are nothing but rounding (a shift before a
// batch norm), and only drown in the others.
class Difference {
 public:
  void add(const Tensor& got, const Tensor& want) {
    const std::vector<double> a = got.to_vector<double>(), b = want.to_vector<double>();
    for (std::size_t i = 0; i < a.size(); ++i) {
      apart_ += (a[i] - b[i]) * (a[i] - b[i]);
      size_ += b[i] * b[i];
    }
  }
  double relative() const { return std::sqrt(apart_ / size_); }

 private:
  double apart_ = 0.0, size_ = 0.0;
};

Tensor floats(const Shape& shape) {
  const Tensor x = Tensor::empty(shape);
  x.assign(random_tensor(shape, 1));
  return x;
}

void expect_compiled_equals_eager(const nn::BlockPtr& model, const Tensor& x, const Tensor& label) {
  model->initialize(nn::init::msra_prelu(nn::init::Fan::in, 0.0), 3);
  const StepGraph step =
      train::trace_step(*model, nn::SoftmaxCrossEntropyLoss(), {x.info(), label.info()});
  std::vector<Tensor> inputs{x, label, random_key(5)};
  for (const auto& parameter : step.parameters)
    inputs.push_back(model->parameter(parameter.name).data());
  const std::vector<Tensor> want = interpret(step.graph, inputs);
  const std::vector<Tensor> got = Executable::compile(step.graph).run(inputs);
  ASSERT_EQ(got.size(), want.size());
  EXPECT_NEAR(got[StepGraph::kLoss].item(), want[StepGraph::kLoss].item(), 1e-3);
  Difference gradients;
  for (std::size_t i = 0; i < step.trainable.size(); ++i)
    gradients.add(got[step.gradient_output(i)], want[step.gradient_output(i)]);
  // A slip of the compiler is of the gradients' own size; rounding, at mobilenet's clips, below
  // 1e-2.
  EXPECT_LT(gradients.relative(), 0.1);
}

TEST(ModelsStep, OfImageModelsCompilesToWhatItIs) {
  const Tensor images = floats({4, 3, 64, 64}), label = random_indices({4}, 2, 0, 7);
  const auto check = [&](const char* name, const nn::BlockPtr& model) {
    SCOPED_TRACE(name);
    expect_compiled_equals_eager(model, images, label);
  };
  check("resnet18 v2", models::resnet({18, 2, 7, false}));
  check("mobilenet v1", models::mobilenet({1, 0.25, 7}));
  check("mobilenet v2", models::mobilenet({2, 0.25, 7}));
}

TEST(ModelsStep, OfTextModelsCompilesToWhatItIs) {
  const Tensor tokens = random_indices({4, 6}, 1, 0, 20), next = random_indices({4, 6}, 2, 0, 20);
  const Tensor label = random_indices({4}, 2, 0, 7);
  expect_compiled_equals_eager(models::lstm_classifier({20, 8, 6, 2, true, 7, 0.1}), tokens, label);
  expect_compiled_equals_eager(models::gpt({20, 8, 12, 3, 2, 0.1}), tokens, next);
  expect_compiled_equals_eager(models::bert({20, 2, 8, 12, 3, 2, 0.1, true}), tokens, next);
}

}  // namespace
}  // namespace lockstep::testing
