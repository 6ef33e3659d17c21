// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/matmul.h"

#include <dnnl.hpp>
#include <gtest/gtest.h>

#include <cmath>

#include "lockstep/ops/catalogue.h"
#include "lockstep/ops/cpu/dnnl_common.h"
#include "lockstep/ops/cpu/reorder.h"
#include "lockstep/ops/dispatch.h"

namespace lockstep {
namespace {

template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "nothing was thrown";
}

Tensor filled(const Shape& shape, double seed) {
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(std::sin(seed + 0.7 * static_cast<double>(i)));
  return Tensor::from(values, shape);
}

void expect_near(const Tensor& a, const Tensor& b, double tolerance = 1e-4) {
  ASSERT_EQ(a.shape().str(), b.shape().str());
  const auto x = a.to_vector<double>();
  const auto y = b.to_vector<double>();
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], tolerance) << "element " << i;
}

std::vector<Tensor> call(std::string_view op, std::vector<Tensor> inputs,
                         std::vector<AttrField> fields) {
  const OpDef& def = get_op(op);
  return apply(def, inputs, def.schema.make(op, fields));
}

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
  const std::string message =
      message_of([&] { matmul(Tensor::zeros({2, 3, 4}), Tensor::zeros({3, 4, 5})); });
  EXPECT_EQ(message.rfind("matmul: ", 0), 0u) << message;
}

TEST(Matmul, WrapsIntegers) {
  const Tensor a = Tensor::from<std::int8_t>({100, 100}, {1, 2});
  const Tensor b = Tensor::from<std::int8_t>({2, 1}, {2, 1});
  EXPECT_EQ(matmul(a, b).item(), 44);  // 300 - 256
}

TEST(Matmul, ReadsTransposedWindowsWithoutACopyOfTheResultChanging) {
  const Tensor a = filled({5, 7}, 0);
  const Tensor b = filled({5, 6}, 1);
  const Tensor window = a.window({7, 5}, {1, 7}, 0);
  expect_near(matmul(window, b), matmul(a, b, true, false), 0);
}

TEST(Matmul, OfOneBatchAgainstOneMatrixEqualsTheTallProduct) {
  const Tensor a = filled({3, 4, 5}, 0);
  const Tensor b = filled({5, 6}, 1);
  const Tensor tall = matmul(a.window({12, 5}, {5, 1}, 0), b);
  expect_near(matmul(a, b), tall.window({3, 4, 6}, {24, 6, 1}, 0), 0);
}

TEST(Dense, NamesTheWeightAndTheFeatures) {
  EXPECT_EQ(message_of([&] { dense(Tensor::zeros({2, 10}), Tensor::zeros({128, 784})); }),
            "dense: weight has shape [128, 784], input has 10 features");
}

TEST(Dense, RefusesAWeightThatIsNotAMatrix) {
  EXPECT_EQ(message_of([&] { dense(Tensor::zeros({2, 10}), Tensor::zeros({10})); }),
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
  EXPECT_EQ(message_of([&] { dense(x, Tensor::zeros({4, 10}, DType::float64)); }),
            "dense: input is float32, weight is float64");
}

TEST(Dense, RefusesIntegers) {
  const Tensor x = Tensor::zeros({2, 10}, DType::int32);
  EXPECT_EQ(message_of([&] { dense(x, x); }), "dense: takes floating tensors, got int32");
}

TEST(Dense, RefusesToFlattenAVector) {
  EXPECT_EQ(message_of([&] { dense(Tensor::zeros({10}), Tensor::zeros({4, 10})); }),
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
  EXPECT_EQ(message_of([&] { call("dense_backward_weights", {x, dy}, {}); }),
            "dense_backward_weights: gradient has shape [3, 4], input has shape [2, 10]");
  EXPECT_EQ(message_of([&] {
              call("dense_backward_data", {dy, Tensor::zeros({4, 10})},
                   {{"x_shape", AttrValue(Ints{2, 10})}});
            }),
            "dense_backward_data: gradient has shape [3, 4], expected [2, 4]");
}

TEST(DenseBackward, OfNoUnitsIsZero) {
  const auto dx = call("dense_backward_data", {Tensor::zeros({2, 0}), Tensor::zeros({0, 3})},
                       {{"x_shape", AttrValue(Ints{2, 3})}});
  expect_near(dx[0], Tensor::zeros({2, 3}), 0);
}

// The compiler's way: layouts are negotiated, and everything that is not plain is reordered.
class InLayouts {
 public:
  InLayouts(std::string_view op, std::vector<AttrField> fields)
      : op_(get_op(op)), attrs_(op_.schema.make(op, fields)) {}

  std::vector<Tensor> run(const std::vector<Tensor>& inputs, const std::vector<Layout>& offered) {
    Infos in;
    for (const Tensor& t : inputs) in.push_back(t.info());
    const Infos out = infer(op_, in, attrs_);
    kernel = choose_kernel({op_, attrs_, in, out, offered, true}).prepared;
    std::vector<Tensor> held, results;
    std::vector<std::byte*> in_data, out_data;
    for (std::size_t i = 0; i < in.size(); ++i)
      in_data.push_back(convert(inputs[i], {}, kernel->input_layouts[i], held));
    for (std::size_t i = 0; i < out.size(); ++i) {
      const auto bytes = static_cast<std::int64_t>(kernel->output_layouts[i].bytes(out[i]));
      held.push_back(Tensor::empty({bytes}, DType::uint8));
      out_data.push_back(held.back().raw());
    }
    Tensor scratch = Tensor::empty({static_cast<std::int64_t>(kernel->scratch_bytes)}, DType::uint8);
    kernel->run({in_data, out_data, scratch.raw()});
    for (std::size_t i = 0; i < out.size(); ++i) {
      Tensor result = Tensor::empty(out[i].shape, out[i].dtype);
      std::byte* from = out_data[i];
      std::byte* to = result.raw();
      const auto reorder = make_reorder(out[i], kernel->output_layouts[i], out[i], {});
      Tensor space = Tensor::empty({static_cast<std::int64_t>(reorder->scratch_bytes)}, DType::uint8);
      reorder->run({std::span(&from, 1), std::span(&to, 1), space.raw()});
      results.push_back(result);
    }
    return results;
  }

  std::shared_ptr<const PreparedKernel> kernel;

 private:
  std::byte* convert(const Tensor& source, const Layout& from, const Layout& to,
                     std::vector<Tensor>& held) {
    const auto reorder = make_reorder(source.info(), from, source.info(), to);
    held.push_back(Tensor::empty({static_cast<std::int64_t>(to.bytes(source.info()))}, DType::uint8));
    std::byte* in = source.raw();
    std::byte* out = held.back().raw();
    Tensor space = Tensor::empty({static_cast<std::int64_t>(reorder->scratch_bytes)}, DType::uint8);
    reorder->run({std::span(&in, 1), std::span(&out, 1), space.raw()});
    return out;
  }

  const OpDef& op_;
  Attrs attrs_;
};

Layout blocked_by_16(const Shape& shape) {
  return kernels::layout_of({kernels::dnnl_dims(shape), dnnl::memory::data_type::f32,
                             dnnl::memory::format_tag::aBcd16b});
}

TEST(DenseInLayouts, TakesABlockedInputAsItIsInAllThreeDirections) {
  const Tensor x = filled({3, 32, 4, 5}, 0);
  const Tensor weight = filled({7, 640}, 1);
  const Tensor bias = filled({7}, 2);
  const Tensor dy = filled({3, 7}, 3);
  const Layout blocked = blocked_by_16(x.shape());

  InLayouts forward("dense", {});
  expect_near(forward.run({x, weight, bias}, {blocked, {}, {}})[0], dense(x, weight, bias));
  EXPECT_EQ(forward.kernel->input_layouts[0], blocked);
  const Layout weight_layout = forward.kernel->input_layouts[1];
  EXPECT_EQ(weight_layout.str(), "aBcd16b");

  InLayouts data("dense_backward_data", {{"x_shape", AttrValue(x.shape().vector())}});
  const auto dx = data.run({dy, weight}, {{}, weight_layout});
  EXPECT_EQ(data.kernel->output_layouts[0], blocked);
  expect_near(dx[0], call("dense_backward_data", {dy, weight},
                          {{"x_shape", AttrValue(x.shape().vector())}})[0]);

  InLayouts weights("dense_backward_weights", {{"with_bias", AttrValue(true)}});
  const auto dw = weights.run({x, dy}, {blocked, {}});
  EXPECT_EQ(weights.kernel->output_layouts[0], weight_layout);
  const auto expected = call("dense_backward_weights", {x, dy}, {{"with_bias", AttrValue(true)}});
  expect_near(dw[0], expected[0]);
  expect_near(dw[1], expected[1]);
}

TEST(DenseInLayouts, AsksForAPlainInputWhereTheBlocksArePadded) {
  const Tensor x = filled({3, 20, 4, 5}, 0);
  const Tensor weight = filled({7, 400}, 1);
  InLayouts forward("dense", {});
  expect_near(forward.run({x, weight}, {blocked_by_16(x.shape()), {}})[0], dense(x, weight));
  EXPECT_TRUE(forward.kernel->input_layouts[0].is_plain());
}

}  // namespace
}  // namespace lockstep
