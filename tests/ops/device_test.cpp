// SPDX-License-Identifier: Apache-2.0
#include "lockstep/autograd/autograd.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/ops.h"
#include "tests/message.h"
#include "tests/ops/check_cases.h"
#include "tests/tensor/test_device.h"

namespace lockstep::testing {
namespace {

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

TEST_P(OtherDevice, GradientsOnTheTestDeviceAreTheHosts) {
  const auto device = TestDevice::make();
  for_each_case(GetParam(), [&](const OpDef& op, const OpCase& c) {
    if (c.inputs.empty() || !op.differentiable() || !c.check_gradient) return;
    const Tensors got = gradients(op, on_device(c.inputs, device->device()), c.attrs);
    expect_device(got, device->device());
    expect_the_hosts_bits(got, gradients(op, on_device(c.inputs, cpu()), c.attrs));
  });
}

INSTANTIATE_TEST_SUITE_P(Ops, OtherDevice, ::testing::ValuesIn(case_families()),
                         [](const auto& family) { return family.param.name; });

void expect_functions_work_on(const Device& device) {
  const Tensor x = full({2, 4, 3}, 0.5, DType::float32, device);
  const Tensor scale = ones({4}, DType::float32, device);
  EXPECT_EQ(group_norm(x, scale, scale, 2).device(), device);
  EXPECT_EQ(instance_norm(x, scale, scale).device(), device);
  EXPECT_EQ(index(x, {0, greater(scale, 0.0)}).device(), device);
  EXPECT_EQ((2.0 - x / 3.0).device(), device);
  const Tensor w = ones({8, 3}, DType::float32, device);
  const Tensor u = ones({8, 2}, DType::float32, device);
  EXPECT_EQ(rnn(x, {{w, u, {}, {}}}, {}).y.device(), device);
}

TEST(OtherDevice, FunctionsMadeOfSeveralOpsWorkThere) {
  expect_functions_work_on(cpu(1));
  const auto device = TestDevice::make();
  expect_functions_work_on(device->device());
  device->synchronize();
}

TEST(OtherDevice, TakesAssignmentsByIndices) {
  const auto device = TestDevice::make();
  const Tensor x = Tensor::zeros({3, 2}, DType::float32, device->device());
  const Tensor rows = Tensor::from(std::vector<std::int64_t>{2, 0}, {2}, device->device());
  index_assign(x, {rows}, Tensor::full({}, 7.0, DType::float32, device->device()));
  index_assign(x, {1, 1}, Tensor::full({}, 5.0, DType::float32, device->device()));
  EXPECT_EQ(x.to(cpu()).to_vector<float>(), (std::vector<float>{7, 7, 0, 5, 7, 7}));
}

TEST(OtherDevice, WithoutAKernelTheOpAndTheDeviceAreNamed) {
  const auto device = TestDevice::make({.index = 3, .kernels = DeviceKind::test});
  const Tensor x = Tensor::zeros({2}, DType::float32, device->device());
  EXPECT_EQ(message_of<Unsupported>([&] { add(x, x); }), "add: there is no kernel for test(3)");
}

TEST(OtherDevice, DoesNotMixWithTheHost) {
  const auto device = TestDevice::make();
  const Tensor x = Tensor::zeros({2}, DType::float32, device->device());
  EXPECT_EQ(message_of([&] { add(x, Tensor::zeros({2})); }),
            "add: inputs are on test(0) and cpu(0)");
}

// The kernel's refusal is told where its result is asked for.
TEST(OtherDevice, ToldLateWhatAKernelRefused) {
  const auto device = TestDevice::make();
  const Tensor x = Tensor::zeros({2}, DType::float32, device->device());
  const Tensor far = Tensor::from(std::vector<std::int64_t>{9}, {1}, device->device());
  const Tensor y = add(take(x, far), 1.0);
  EXPECT_NE(message_of([&] { y.to(cpu()); }).find("out of range"), std::string::npos);
  EXPECT_EQ(add(x, 1.0).to(cpu()).to_vector<float>(), (std::vector<float>{1, 1}));
}

}  // namespace
}  // namespace lockstep::testing
