// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "lockstep/autograd/autograd.h"
#include "lockstep/graph/differentiate.h"
#include "lockstep/graph/executable.h"
#include "lockstep/ops/ops.h"
#include "tests/ops/calls.h"

// NaN goes through every op, and the same way in every mode: op by op, and compiled with and
// without fusion, layouts and bfloat16.
namespace lockstep::testing {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

using Function = std::function<Tensor(const std::vector<Tensor>&)>;

std::vector<bool> nans(const Tensor& x) {
  std::vector<bool> found;
  for (double value : cast(x, DType::float64).to_vector<double>())
    found.push_back(std::isnan(value));
  return found;
}

Graph training_graph(const Function& f, const std::vector<Tensor>& inputs) {
  Infos infos;
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    infos.push_back(inputs[i].info());
    all.push_back(i);
  }
  const auto with_loss = [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    const Tensor y = f(in);
    return {sum(y * y), y};
  };
  return differentiate(trace(with_loss, infos), 0, all);
}

// The function, its squared sum and all gradients have NaN in the same places in every mode.
// (Gradients not for infinite inputs: whether 0 * inf occurs is up to each kernel's padding.)
void expect_same_nans(const Function& f, const std::vector<Tensor>& inputs, bool gradients = true) {
  const Graph graph = training_graph(f, inputs);
  const std::vector<Tensor> expected = interpret(graph, inputs);
  for (const CompileOptions& options :
       {CompileOptions{}, CompileOptions{.fuse = false}, CompileOptions{.choose_layouts = false},
        CompileOptions{.compute = DType::bfloat16}}) {
    const std::vector<Tensor> got = Executable::compile(graph, options).run(inputs);
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < (gradients ? got.size() : 2); ++i)
      EXPECT_EQ(nans(got[i]), nans(expected[i])) << "output " << i;
  }
}

// Element `at` replaced.
Tensor with(const Tensor& x, std::size_t at, float value) {
  std::vector<float> values = x.to_vector<float>();
  values[at] = value;
  return Tensor::from(values, x.shape());
}

bool any_nan(const Tensor& x) {
  const std::vector<bool> found = nans(x);
  return std::find(found.begin(), found.end(), true) != found.end();
}

TEST(NotANumber, PassesAFusedRelu) {
  const auto conv_relu = [](const std::vector<Tensor>& in) {
    return relu(conv(in[0], in[1], in[2], {.padding = {1}}));
  };
  const auto dense_relu = [](const std::vector<Tensor>& in) {
    return relu(dense(in[0], in[1], in[2]));
  };
  for (float bad : {kNan, kInf, -kInf}) {
    for (const Shape& x : {Shape{2, 16, 5, 5}, Shape{2, 3, 6, 4}, Shape{2, 16, 9}}) {
      Shape w{16, x[1], 3};
      if (x.rank() == 4) w = {16, x[1], 3, 3};
      expect_same_nans(
          conv_relu,
          {with(random_floats(x, 1), 7, bad), random_floats(w, 2), random_floats({16}, 3)},
          std::isnan(bad));
    }
    for (std::int64_t rows : {3, 600})
      expect_same_nans(dense_relu,
                       {with(random_floats({rows, 20}, 1), 7, bad), random_floats({33, 20}, 2),
                        random_floats({33}, 3)},
                       std::isnan(bad));
  }
}

Function norm_relu() {
  return
      [](const std::vector<Tensor>& in) { return relu(batch_norm(in[0], in[1], in[2], 1e-5).y); };
}

TEST(NotANumber, PassesBatchNormWithRelu) {
  for (const Shape& shape : {Shape{4, 16, 3, 3}, Shape{4, 20, 3, 3}, Shape{6, 5}, Shape{3, 8, 7}}) {
    const Tensor x = random_floats(shape, 1);
    const Tensor gamma = random_floats({shape[1]}, 2), beta = random_floats({shape[1]}, 3);
    for (float bad : {kNan, kInf, -kInf}) {
      expect_same_nans(norm_relu(), {with(x, 5, bad), gamma, beta});
      expect_same_nans(norm_relu(), {x, with(gamma, 2, bad), beta});
      expect_same_nans(norm_relu(), {x, gamma, with(beta, 2, bad)});
    }
  }
}

// A blocked layout comes from the convolution before.
TEST(NotANumber, PassesBatchNormWithReluBehindAConvolution) {
  const auto f = [](const std::vector<Tensor>& in) {
    return relu(batch_norm(conv(in[0], in[1], {}, {.padding = {1}}), in[2], in[3], 1e-5).y);
  };
  for (std::int64_t channels : {16, 20}) {
    const std::vector<Tensor> good{random_floats({2, 16, 5, 5}, 1),
                                   random_floats({channels, 16, 3, 3}, 2),
                                   random_floats({channels}, 3), random_floats({channels}, 4)};
    for (std::size_t i = 0; i < good.size(); ++i) {
      std::vector<Tensor> inputs = good;
      inputs[i] = with(inputs[i], 3, kNan);
      expect_same_nans(f, inputs);
    }
  }
}

TEST(NotANumber, PassesARecurrentLayerWithRelu) {
  for (DType dtype : {DType::float32, DType::float64}) {
    const auto outputs =
        call("rnn_layer",
             {cast(with(random_floats({3, 2, 4}, 1), 1, kNan), dtype),
              cast(random_floats({2, 5}, 2), dtype), cast(random_floats({5, 4}, 3), dtype),
              cast(random_floats({5, 5}, 4), dtype), cast(random_floats({5}, 5), dtype),
              cast(random_floats({5}, 6), dtype)},
             {{"mode", std::string("rnn_relu")}});
    const std::vector<bool> found = nans(outputs[0]);
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i], i / 5 % 2 == 0) << i;
  }
}

// As relu does everywhere: what it stops is 0, whatever comes back.
TEST(NotANumber, IsStoppedByAClosedGateOfARecurrentLayerWithRelu) {
  for (DType dtype : {DType::float32, DType::float64}) {
    Tensor weight = cast(random_floats({5, 4}, 3), dtype);
    autograd::attach_grad(weight);
    {
      const autograd::RecordScope record;
      const auto outputs = call(
          "rnn_layer",
          {cast(random_floats({3, 2, 4}, 1), dtype), cast(random_floats({2, 5}, 2), dtype), weight,
           cast(random_floats({5, 5}, 4), dtype), full({5}, -100.0, dtype), full({5}, 0.0, dtype)},
          {{"mode", std::string("rnn_relu")}});
      autograd::backward(sum(outputs[0] * full({3, 2, 5}, kNan, dtype)));
    }
    EXPECT_EQ(cast(autograd::gradient(weight), DType::float64).to_vector<double>(),
              std::vector<double>(20, 0.0));
  }
}

TEST(NotANumber, LetsTheGradientOfReluAndMaximumPass) {
  for (DType dtype : {DType::float32, DType::float64}) {
    const Tensor ones = full({4}, 1.0, dtype);
    const Tensor x = cast(Tensor::from(std::vector<float>{kNan, 1, 0, -1}, {4}), dtype);
    EXPECT_EQ(relu_backward(ones, relu(x)).to_vector<double>(), (std::vector<double>{1, 1, 0, 0}));
    Tensor a = cast(Tensor::from(std::vector<float>{kNan, 1, kNan, 2}, {4}), dtype);
    Tensor b = cast(Tensor::from(std::vector<float>{1, kNan, kNan, 2}, {4}), dtype);
    autograd::attach_grad(a);
    autograd::attach_grad(b);
    {
      const autograd::RecordScope record;
      autograd::backward(sum(maximum(a, b) + minimum(a, b)));
    }
    for (const Tensor& grad : {autograd::gradient(a), autograd::gradient(b)})
      EXPECT_EQ(grad.to_vector<double>(), (std::vector<double>{2, 2, 2, 1}));
  }
}

TEST(NotANumber, ReachesTheGradientOfALossAndOfLogSoftmax) {
  for (DType dtype : {DType::float32, DType::float64})
    for (float bad : {kNan, kInf}) {
      Tensor x = cast(with(random_floats({2, 19}, 1), 3, bad), dtype);
      autograd::attach_grad(x);
      for (int axis : {0, 1}) {
        {
          const autograd::RecordScope record;
          autograd::backward(sum(log_softmax(x, axis)));
        }
        const std::vector<bool> found = nans(autograd::gradient(x));
        for (std::size_t i = 0; i < found.size(); ++i)
          EXPECT_EQ(found[i], axis == 1 ? i < 19 : i % 19 == 3) << i << " " << axis;
      }
      const Tensor labels = Tensor::from(std::vector<std::int64_t>{4, 5}, {2});
      {
        const autograd::RecordScope record;
        autograd::backward(sum(softmax_cross_entropy(x, labels)));
      }
      const std::vector<bool> found = nans(autograd::gradient(x));
      for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i], i < 19) << i;
    }
}

// For vectors, and for what is left over after them.
TEST(NotANumber, PassesEveryElementwiseFunction) {
  const std::pair<const char*, std::function<Tensor(const Tensor&)>> functions[] = {
      {"exp", exp},
      {"expm1", expm1},
      {"log", log},
      {"log1p", log1p},
      {"sqrt", sqrt},
      {"rsqrt", rsqrt},
      {"square", square},
      {"reciprocal", reciprocal},
      {"abs", abs},
      {"floor", floor},
      {"ceil", ceil},
      {"round", round},
      {"erf", erf},
      {"sin", sin},
      {"cos", cos},
      {"tanh", tanh},
      {"sigmoid", sigmoid},
      {"softplus", softplus},
      {"relu", relu},
      {"selu", selu},
      {"silu", silu},
      {"gelu", [](const Tensor& x) { return gelu(x); }},
      {"gelu by tanh", [](const Tensor& x) { return gelu(x, true); }},
      {"leaky_relu", [](const Tensor& x) { return leaky_relu(x); }},
      {"elu", [](const Tensor& x) { return elu(x); }},
      {"hard_sigmoid", [](const Tensor& x) { return hard_sigmoid(x); }},
      {"clip", [](const Tensor& x) { return clip(x, -1, 1); }},
      {"cumsum", [](const Tensor& x) { return cumsum(x, 0); }},
      {"softmax", [](const Tensor& x) { return softmax(x, 0); }},
      {"layer_norm", [](const Tensor& x) {
         return layer_norm(x, full({21}, 1.0, x.dtype()), full({21}, 0.0, x.dtype()), 1e-5);
       }}};
  for (const auto& [name, f] : functions)
    for (DType dtype : {DType::float32, DType::float64, DType::float16, DType::bfloat16})
      for (std::size_t at : {std::size_t{0}, std::size_t{20}}) {
        const Tensor x = cast(with(random_floats({21}, 1, 0.1, 0.9), at, kNan), dtype);
        EXPECT_TRUE(nans(f(x))[at]) << name << " " << name_of(dtype);
      }
}

TEST(NotANumber, PassesPoolsAndReductions) {
  for (DType dtype : {DType::float32, DType::float64, DType::bfloat16}) {
    const Tensor x = cast(with(random_floats({2, 16, 6, 6}, 1), 3, kNan), dtype);
    for (const Tensor& y : {max_pool(x, {.kernel = {2}}), avg_pool(x, {.kernel = {3}}), max(x),
                            min(x), sum(x), mean(x), prod(x), var(x), norm(x), logsumexp(x)})
      EXPECT_TRUE(any_nan(y)) << name_of(dtype);
  }
}

}  // namespace
}  // namespace lockstep::testing
