// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/hook.h"

#include <gtest/gtest.h>

#include "lockstep/autograd/autograd.h"
#include "lockstep/ops/create.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/reduce.h"
#include "lockstep/ops/unary.h"
#include "tests/message.h"
#include "tests/nn/nets.h"

namespace lockstep::testing {
namespace {

using Tensors = std::vector<Tensor>;

Tensors doubled(nn::Block&, const Tensors& inputs) { return {inputs[0] * 2.0}; }
Tensors plus_one(nn::Block&, const Tensors&, const Tensors& outputs) { return {outputs[0] + 1.0}; }

std::shared_ptr<nn::Sequential> two_layers() {
  auto net = nn::sequential(nn::dense(3, {.inputs = 2}), nn::dense(2, {.inputs = 3}));
  net->initialize();
  return net;
}

TEST(Hook, SeesInputsAndOutputsAndMayChangeThem) {
  const auto net = two_layers();
  const Tensor x = drawn({4, 2}, 1), plain = (*net)(x);
  Tensors seen;
  net->register_forward_hook([&](nn::Block& block, const Tensors& in, const Tensors& out) {
    EXPECT_EQ(&block, net.get());
    seen = {in[0], out[0]};
    return Tensors();
  });
  (*net)(x);
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_TRUE(seen[0].same_as(x));
  expect_close(seen[1], plain, 0.0);
  const nn::HookHandle before = net->register_forward_pre_hook(doubled);
  net->register_forward_hook(plus_one);
  const Tensor changed = (*net)(x);
  expect_close(seen[0], x * 2.0, 0.0);
  expect_close(changed, seen[1] + 1.0, 1e-6);
  EXPECT_TRUE(before.is_attached());
}

TEST(Hook, IsGoneWhenItsHandleRemovesIt) {
  const auto net = two_layers();
  const Tensor x = drawn({4, 2}, 1), plain = (*net)(x);
  nn::HookHandle first = (*net)[0].register_forward_pre_hook(doubled);
  nn::HookHandle second = (*net)[1].register_forward_hook(plus_one);
  EXPECT_GT(max(abs((*net)(x)-plain)).item(), 0.1);
  first.remove();
  first.remove();
  EXPECT_FALSE(first.is_attached());
  expect_close((*net)(x), plain + 1.0, 1e-6);
  second.remove();
  expect_close((*net)(x), plain, 0.0);
}

TEST(Hook, HandleMayOutliveTheBlock) {
  nn::HookHandle handle;
  EXPECT_FALSE(handle.is_attached());
  {
    const auto net = two_layers();
    handle = net->register_forward_pre_hook(doubled);
    EXPECT_TRUE(handle.is_attached());
  }
  EXPECT_FALSE(handle.is_attached());
  handle.remove();
}

TEST(Hook, MayRemoveItself) {
  const auto net = two_layers();
  int calls = 0;
  nn::HookHandle handle;
  handle = net->register_forward_pre_hook([&](nn::Block&, const Tensors&) {
    ++calls;
    handle.remove();
    return Tensors();
  });
  (*net)(drawn({1, 2}, 1));
  (*net)(drawn({1, 2}, 1));
  EXPECT_EQ(calls, 1);
}

TEST(Hook, IsPartOfACompiledBlock) {
  const auto net = two_layers();
  const Tensor x = drawn({4, 2}, 1);
  net->hybridize();
  const Tensor plain = (*net)(x);
  nn::HookHandle inner = (*net)[1].register_forward_hook(plus_one);
  expect_close((*net)(x), plain + 1.0, 1e-6);
  net->register_forward_hook(plus_one);
  expect_close((*net)(x), plain + 2.0, 1e-6);
  inner.remove();
  expect_close((*net)(x), plain + 1.0, 1e-6);
}

TEST(Hook, TakesPartInGradients) {
  const auto net = nn::sequential(nn::dense(1, {.inputs = 2, .bias = false}));
  net->initialize();
  net->register_forward_pre_hook(doubled);
  {
    const autograd::RecordScope record;
    autograd::backward(sum((*net)(ones({1, 2}))));
  }
  EXPECT_EQ(net->parameter("0.weight").grad().to_vector<float>(), (std::vector<float>{2, 2}));
}

TEST(Hook, NamesWhatDoesNotFit) {
  const auto net = two_layers();
  EXPECT_EQ(message_of([&] { net->register_forward_hook(nullptr); }),
            "register_forward_hook: there is no function");
  net->register_forward_hook([](nn::Block&, const Tensors&, const Tensors& out) {
    return Tensors{out[0], out[0]};
  });
  EXPECT_EQ(message_of([&] {
              (*net)(ones({1, 2}));
            }),
            "Sequential: a hook gave 2 outputs, expected 1 or none");
}

}  // namespace
}  // namespace lockstep::testing
