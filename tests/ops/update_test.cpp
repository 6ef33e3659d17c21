// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/update.h"

#include <gtest/gtest.h>

#include "lockstep/ops/catalogue.h"
#include "lockstep/ops/dispatch.h"
#include "tests/ops/op_cases.h"

namespace lockstep {
namespace {

using testing::random_tensor;

Tensor float32(const Tensor& x) {
  const Tensor result = Tensor::empty(x.shape());
  result.assign(x);
  return result;
}

std::string message_of(const Tensor& weight, const Tensor& gradient, const Tensor& buffer,
                       const Tensor& rate) {
  try {
    sgd_momentum_update(weight, gradient, buffer, rate);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "no error";
}

TEST(Update, WrongInputsAreNamed) {
  const Tensor w = Tensor::zeros({2, 3});
  const Tensor rate = Tensor::scalar(0.1);
  EXPECT_EQ(message_of(w, Tensor::zeros({3}), w, rate),
            "sgd_momentum_update: the gradient is float32[3], expected float32[2, 3]");
  EXPECT_EQ(message_of(w, w, Tensor::zeros({2, 3}, DType::float64), rate),
            "sgd_momentum_update: the momentum buffer is float64[2, 3], expected float32[2, 3]");
  EXPECT_EQ(message_of(w, w, w, Tensor::zeros({1})),
            "sgd_momentum_update: the rate is float32[1], expected float32[]");
  const Tensor whole = Tensor::zeros({2}, DType::int64);
  EXPECT_EQ(message_of(whole, whole, whole, rate),
            "sgd_momentum_update: the weight is int64, expected a floating dtype");
}

TEST(Update, OutputsMayBeTheWeightAndTheBufferThemselves) {
  const OpDef& op = get_op("sgd_momentum_update");
  const Tensor w = float32(random_tensor({1003}, 1));
  const Tensor g = float32(random_tensor({1003}, 2));
  const Tensor m = float32(random_tensor({1003}, 3));
  const Tensor rate = Tensor::scalar(0.1);
  const auto [new_w, new_m] = sgd_momentum_update(w, g, m, rate, 0.9, 1e-4, 0.5);
  const Attrs attrs =
      op.schema.make(op.name, std::vector<AttrField>{{"decay", 1e-4}, {"scale", 0.5}});
  const auto view = [](const Tensor& x) {
    return TensorView{x.raw(), x.shape(), x.strides(), x.dtype()};
  };
  const TensorView inputs[] = {view(w), view(g), view(m), view(rate)};
  const TensorView outputs[] = {view(w), view(m)};
  op.cpu[0].direct({inputs, outputs, attrs});
  EXPECT_EQ(w.to_vector<float>(), new_w.to_vector<float>());
  EXPECT_EQ(m.to_vector<float>(), new_m.to_vector<float>());
}

}  // namespace
}  // namespace lockstep
