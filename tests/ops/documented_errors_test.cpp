// SPDX-License-Identifier: Apache-2.0
// The messages that docs/errors.md shows are the ones that are given.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "lockstep/autograd/autograd.h"
#include "lockstep/graph/symbol.h"
#include "lockstep/graph/trace.h"
#include "lockstep/ops/catalogue.h"
#include "lockstep/ops/conv_attrs.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/ops.h"
#include "tests/message.h"

namespace lockstep {
namespace {

using testing::message_of;

std::string documentation() {
  std::ifstream file(LOCKSTEP_ERRORS_MD);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

template <class E = InvalidArgument, class F>
void expect_documented(F&& call) {
  static const std::string text = documentation();
  const std::string message = message_of<E>(call);
  const bool is_there = text.find("`" + message + "`") != std::string::npos ||
                        text.find("// " + message + "\n") != std::string::npos;
  EXPECT_TRUE(is_there) << "not in docs/errors.md: " << message;
}

TEST(DocumentedErrors, AreWhatBadArgumentsGive) {
  const Tensor x = ones({2, 3});
  expect_documented([] { dense(ones({1, 10}), ones({128, 784})); });
  expect_documented([&] { add(x, ones({4})); });
  expect_documented([&] { sum(x, {3}); });
  expect_documented([&] { matmul(x, ones({4, 5})); });
  expect_documented([] { conv(ones({1, 1, 3}), ones({1, 1, 3}), {}, {.groups = 0}); });
  expect_documented([] { embedding(full({4}, 12, DType::int64), ones({10, 2})); });
  expect_documented([] { relu(ones({2}, DType::boolean)); });
  expect_documented([] { uniform({2}); });
}

TEST(DocumentedErrors, AreWhatTensorsWithoutAMeaningGive) {
  expect_documented([] { exp(Tensor()); });
  expect_documented([] { Tensor().copy(); });
  expect_documented([] { ones({2}).item(); });
  expect_documented([] {
    trace(
        [](const std::vector<Tensor>& inputs) {
          inputs[0].raw();
          return inputs;
        },
        Infos{{{2}, DType::float32, {}}});
  });
  expect_documented([] { autograd::backward(Tensor::scalar(1.0)); });
}

TEST(DocumentedErrors, AreWhatTheWorldGives) {
  expect_documented<NotFound>([] { get_op("foo"); });
  expect_documented<OutOfMemory>([] { ones({1ll << 58}); });
  expect_documented<Unsupported>([] {
    const Tensor x = ones({1, 1, 3});
    autograd::attach_grad(x);
    const autograd::RecordScope record;
    const Tensor y = apply_one(get_op("conv"), {x, x}, Attrs::of(ConvAttrs{{}, "relu"}));
    autograd::backward(y);
  });
  expect_documented<Corrupt>(
      [] { Symbol::from_json(R"({"format": "lockstep-graph", "version": 9})", "model.json"); });
}

}  // namespace
}  // namespace lockstep
