// SPDX-License-Identifier: Apache-2.0
#include "lockstep/autograd/autograd.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/ops.h"
#include "tests/ops/check_cases.h"

namespace lockstep::testing {
namespace {

Tensors on_device(const Tensors& inputs, Device device) {
  Tensors moved;
  for (const Tensor& x : inputs) moved.push_back(x.to(device));
  return moved;
}

void expect_device(const Tensors& tensors, Device device) {
  for (const Tensor& x : tensors)
    if (x) {
      EXPECT_EQ(x.device(), device);
    }
}

// Gradients of the outputs that have one, with respect to every floating input.
Tensors gradients(const OpDef& op, const Tensors& inputs, const Attrs& attrs) {
  Tensors variables;
  for (const Tensor& x : inputs)
    if (is_floating(x.dtype())) variables.push_back(x);
  for (const Tensor& x : variables) autograd::attach_grad(x);
  Tensors heads;
  {
    const autograd::RecordScope record;
    for (const Tensor& y : apply(op, inputs, attrs))
      if (autograd::requires_grad(y)) heads.push_back(y);
  }
  return heads.empty() ? Tensors{} : autograd::grad(heads, variables);
}

class OtherDevice : public ::testing::TestWithParam<CaseFamily> {};

TEST_P(OtherDevice, ResultsAndGradientsStayOnIt) {
  for_each_case(GetParam(), [](const OpDef& op, const OpCase& c) {
    if (c.inputs.empty()) return;
    const Tensors inputs = on_device(c.inputs, cpu(1));
    expect_device(apply(op, inputs, c.attrs), cpu(1));
    if (op.decompose != nullptr) expect_device(op.decompose(inputs, c.attrs), cpu(1));
    if (op.differentiable() && c.check_gradient)
      expect_device(gradients(op, inputs, c.attrs), cpu(1));
  });
}

INSTANTIATE_TEST_SUITE_P(Ops, OtherDevice, ::testing::ValuesIn(case_families()),
                         [](const auto& family) { return family.param.name; });

TEST(OtherDevice, FunctionsMadeOfSeveralOpsWorkThere) {
  const Tensor x = full({2, 4, 3}, 0.5, DType::float32, cpu(1));
  const Tensor scale = ones({4}, DType::float32, cpu(1));
  EXPECT_EQ(group_norm(x, scale, scale, 2).device(), cpu(1));
  EXPECT_EQ(instance_norm(x, scale, scale).device(), cpu(1));
  EXPECT_EQ(index(x, {0, greater(scale, 0.0)}).device(), cpu(1));
  EXPECT_EQ((2.0 - x / 3.0).device(), cpu(1));
  const Tensor w = ones({8, 3}, DType::float32, cpu(1));
  const Tensor u = ones({8, 2}, DType::float32, cpu(1));
  EXPECT_EQ(rnn(x, {{w, u, {}, {}}}, {}).y.device(), cpu(1));
}

}  // namespace
}  // namespace lockstep::testing
