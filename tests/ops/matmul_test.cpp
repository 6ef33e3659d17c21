// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/matmul.h"

#include <gtest/gtest.h>

#include "lockstep/ops/catalogue.h"
#include "lockstep/ops/elementwise.h"
#include "tests/ops/calls.h"
#include "tests/ops/layout_run.h"

namespace lockstep {
namespace {

using testing::blocked_by_16;
using testing::call;
using testing::expect_near;
using testing::LayoutRun;
using testing::message_of;
using testing::random_floats;
using testing::run_in_layouts;

TEST(Matmul, RefusesInnerSizesThatDiffer) {
  const Tensor a = Tensor::zeros({2, 3});
  const Tensor b = Tensor::zeros({4, 5});
  EXPECT_EQ(message_of([&] { matmul(a, b); }),
            "matmul: a has shape [2, 3], b has shape [4, 5]: inner sizes 3 and 4 differ");
  EXPECT_EQ(message_of([&] { matmul(a, b, true, true); }),
            "matmul: a has shape [2, 3] (transposed), b has shape [4, 5] (transposed): inner sizes "
            "2 and 5 differ");
}

TEST(Matmul, RefusesAScalar) {
  EXPECT_EQ(message_of([&] { matmul(Tensor::scalar(1), Tensor::zeros({2})); }),
            "matmul: a scalar is not a matrix: a has shape [], b has shape [2]");
}

TEST(Matmul, RefusesBool) {
  const Tensor a = Tensor::zeros({2, 2}, DType::boolean);
  EXPECT_EQ(message_of([&] { matmul(a, a); }), "matmul: takes numbers, got bool");
}

TEST(Matmul, RefusesBatchesThatDoNotBroadcast) {
  const std::string message = message_of([&] {
    matmul(Tensor::zeros({2, 3, 4}), Tensor::zeros({3, 4, 5}));
  });
  EXPECT_EQ(message.rfind("matmul: ", 0), 0u) << message;
}

TEST(Matmul, WrapsIntegers) {
  const Tensor a = Tensor::from<std::int8_t>({100, 100}, {1, 2});
  const Tensor b = Tensor::from<std::int8_t>({2, 1}, {2, 1});
  EXPECT_EQ(matmul(a, b).item(), 44);  // 300 - 256
  const Tensor c = Tensor::from<std::int16_t>({30000, 30000}, {1, 2});
  EXPECT_EQ(matmul(c, cast(b, DType::int16)).item(), 24464);  // 90000 - 65536
}

TEST(Matmul, ReadsTransposedWindowsWithoutACopyOfTheResultChanging) {
  const Tensor a = random_floats({5, 7}, 0);
  const Tensor b = random_floats({5, 6}, 1);
  const Tensor window = a.window({7, 5}, {1, 7}, 0);
  expect_near(matmul(window, b), matmul(a, b, true, false), 0);
}

TEST(Matmul, OfOneBatchAgainstOneMatrixEqualsTheTallProduct) {
  const Tensor a = random_floats({3, 4, 5}, 0);
  const Tensor b = random_floats({5, 6}, 1);
  const Tensor tall = matmul(a.window({12, 5}, {5, 1}, 0), b);
  expect_near(matmul(a, b), tall.window({3, 4, 6}, {24, 6, 1}, 0), 0);
}

TEST(Dense, NamesTheWeightAndTheFeatures) {
  EXPECT_EQ(message_of([&] {
              dense(Tensor::zeros({2, 10}), Tensor::zeros({128, 784}));
            }),
            "dense: weight has shape [128, 784], input has 10 features");
}

TEST(Dense, RefusesAWeightThatIsNotAMatrix) {
  EXPECT_EQ(message_of([&] {
              dense(Tensor::zeros({2, 10}), Tensor::zeros({10}));
            }),
            "dense: weight has shape [10], expected [units, features]");
}

TEST(Dense, RefusesABiasOfAnotherSize) {
  const Tensor x = Tensor::zeros({2, 10});
  const Tensor weight = Tensor::zeros({4, 10});
  EXPECT_EQ(message_of([&] { dense(x, weight, Tensor::zeros({5})); }),
            "dense: bias has shape [5], expected [4]");
}

TEST(Dense, RefusesMixedDtypes) {
  const Tensor x = Tensor::zeros({2, 10});
  EXPECT_EQ(message_of([&] {
              dense(x, Tensor::zeros({4, 10}, DType::float64));
            }),
            "dense: input is float32, weight is float64");
}

TEST(Dense, RefusesIntegers) {
  const Tensor x = Tensor::zeros({2, 10}, DType::int32);
  EXPECT_EQ(message_of([&] { dense(x, x); }), "dense: takes floating tensors, got int32");
}

TEST(Dense, RefusesToFlattenAVector) {
  EXPECT_EQ(message_of([&] {
              dense(Tensor::zeros({10}), Tensor::zeros({4, 10}));
            }),
            "dense: input has shape [10], expected at least 2 axes");
}

TEST(Dense, RefusesAnUnknownActivation) {
  const Tensor x = Tensor::zeros({2, 10});
  EXPECT_EQ(message_of([&] {
              call("dense", {x, x}, {{"activation", AttrValue(std::string("swish"))}});
            }),
            "dense: activation is 'swish', expected '' or 'relu'");
}

TEST(DenseBackward, RefusesGradientsOfAnotherShape) {
  const Tensor x = Tensor::zeros({2, 10});
  const Tensor dy = Tensor::zeros({3, 4});
  EXPECT_EQ(message_of([&] {
              call("dense_backward_weights", {x, dy}, {});
            }),
            "dense_backward_weights: gradient has shape [3, 4], input has shape [2, 10]");
  EXPECT_EQ(message_of([&] {
              call("dense_backward_data", {dy, Tensor::zeros({4, 10})},
                   {{"x_shape", AttrValue(Ints{2, 10})}});
            }),
            "dense_backward_data: gradient has shape [3, 4], expected [2, 4]");
}

TEST(DenseBackward, RefusesAShapeThatNoTensorHas) {
  EXPECT_EQ(message_of([&] {
              call("dense_backward_data", {Tensor::zeros({2, 4}), Tensor::zeros({4, 6})},
                   {{"x_shape", AttrValue(Ints{2, -2, -3})}});
            }),
            "dense_backward_data: x_shape is [2, -2, -3], which no tensor has");
  EXPECT_EQ(message_of([&] {
              call("dense_backward_data", {Tensor::zeros({0, 4}), Tensor::zeros({4, 6})},
                   {{"x_shape", AttrValue(Ints{0, 5, INT64_MAX})}});
            }),
            "dense_backward_data: x_shape is [0, 5, 9223372036854775807], which no tensor has");
}

TEST(DenseBackward, OfNoUnitsIsZero) {
  const auto dx = call("dense_backward_data", {Tensor::zeros({2, 0}), Tensor::zeros({0, 3})},
                       {{"x_shape", AttrValue(Ints{2, 3})}});
  expect_near(dx[0], Tensor::zeros({2, 3}), 0);
}

TEST(DenseInLayouts, TakesABlockedInputAsItIsInAllThreeDirections) {
  const Tensor x = random_floats({3, 32, 4, 5}, 0);
  const Tensor weight = random_floats({7, 640}, 1);
  const Tensor bias = random_floats({7}, 2);
  const Tensor dy = random_floats({3, 7}, 3);
  const Layout blocked = blocked_by_16(x.shape());

  const LayoutRun y = run_in_layouts("dense", {x, weight, bias}, {}, {.offered = {blocked}});
  expect_near(y.outputs[0], dense(x, weight, bias));
  EXPECT_EQ(y.input_layouts[0], blocked);
  const Layout weight_layout = y.input_layouts[1];
  EXPECT_EQ(weight_layout.str(), "aBcd16b");

  const std::vector<AttrField> shape{{"x_shape", AttrValue(x.shape().vector())}};
  const LayoutRun dx =
      run_in_layouts("dense_backward_data", {dy, weight}, shape, {.offered = {{}, weight_layout}});
  EXPECT_EQ(dx.output_layouts[0], blocked);
  expect_near(dx.outputs[0], call("dense_backward_data", {dy, weight}, shape)[0]);

  const std::vector<AttrField> with_bias{{"with_bias", AttrValue(true)}};
  const LayoutRun dw =
      run_in_layouts("dense_backward_weights", {x, dy}, with_bias, {.offered = {blocked}});
  EXPECT_EQ(dw.output_layouts[0], weight_layout);
  const auto expected = call("dense_backward_weights", {x, dy}, with_bias);
  expect_near(dw.outputs[0], expected[0]);
  expect_near(dw.outputs[1], expected[1]);
}

TEST(DenseInLayouts, AsksForAPlainInputWhereTheBlocksArePadded) {
  const Tensor x = random_floats({3, 20, 4, 5}, 0);
  const Tensor weight = random_floats({7, 400}, 1);
  const LayoutRun y =
      run_in_layouts("dense", {x, weight}, {}, {.offered = {blocked_by_16(x.shape())}});
  EXPECT_TRUE(y.input_layouts[0].is_plain());
  expect_near(y.outputs[0], dense(x, weight));
}

TEST(DenseInLayouts, PacksTheWeightOfABlockedInputWithManyRows) {
  const Tensor x = random_floats({520, 16, 2, 2}, 0);
  const Tensor weight = random_floats({5, 64}, 1);
  const Layout blocked = blocked_by_16(x.shape());
  const LayoutRun y = run_in_layouts("dense", {x, weight}, {}, {.offered = {blocked}});
  EXPECT_EQ(y.input_layouts[0], blocked);
  EXPECT_EQ(y.kernel.rfind("packed", 0), 0u) << y.kernel;
  expect_near(y.outputs[0], dense(x, weight));
}

}  // namespace
}  // namespace lockstep
