// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/models/layers.h"

#include <cmath>

#include "lockstep/ops/index_ops.h"
#include "lockstep/ops/matmul.h"
#include "lockstep/ops/norm.h"
#include "lockstep/ops/rnn.h"
#include "lockstep/ops/shape_ops.h"

namespace lockstep::layers {
namespace {

Init fan_in(std::int64_t inputs) { return {1.0 / std::sqrt(static_cast<double>(inputs)), 0.0}; }

constexpr Init kZeros{0.0, 0.0};
constexpr Init kOnes{0.0, 1.0};

}  // namespace

Tensor dense(ParameterSource& parameters, const std::string& name, const Tensor& x,
             std::int64_t units, bool flatten) {
  const std::int64_t features = flatten ? x.numel() / x.shape(0) : x.shape().back();
  const Init init = fan_in(features);
  const Tensor weight = parameters.get(name + ".weight", {units, features}, init);
  const Tensor bias = parameters.get(name + ".bias", {units}, init);
  return lockstep::dense(x, weight, bias, flatten);
}

Tensor conv(ParameterSource& parameters, const std::string& name, const Tensor& x,
            std::int64_t channels, std::int64_t kernel, std::int64_t stride, bool bias) {
  const Init init = fan_in(x.shape(1) * kernel * kernel);
  const Shape shape{channels, x.shape(1), kernel, kernel};
  const Tensor weight = parameters.get(name + ".weight", shape, init);
  const Tensor shift = bias ? parameters.get(name + ".bias", {channels}, init) : Tensor();
  return lockstep::conv(x, weight, shift, {.stride = {stride}, .padding = {kernel / 2}});
}

Tensor batch_norm(ParameterSource& parameters, const std::string& name, const Tensor& x) {
  const Tensor gamma = parameters.get(name + ".weight", {x.shape(1)}, kOnes);
  const Tensor beta = parameters.get(name + ".bias", {x.shape(1)}, kZeros);
  return lockstep::batch_norm(x, gamma, beta).y;
}

Tensor layer_norm(ParameterSource& parameters, const std::string& name, const Tensor& x) {
  const Tensor gamma = parameters.get(name + ".weight", {x.shape(-1)}, kOnes);
  const Tensor beta = parameters.get(name + ".bias", {x.shape(-1)}, kZeros);
  return lockstep::layer_norm(x, gamma, beta);
}

Tensor embedding(ParameterSource& parameters, const std::string& name, const Tensor& indices,
                 std::int64_t rows, std::int64_t width) {
  return lockstep::embedding(indices, parameters.get(name + ".weight", {rows, width}, {0.05, 0.0}));
}

Tensor lstm_last(ParameterSource& parameters, const std::string& name, const Tensor& x,
                 std::int64_t hidden) {
  const Init init = fan_in(hidden);
  RnnWeights weights;
  weights.w_input = parameters.get(name + ".weight_ih_l0", {4 * hidden, x.shape(-1)}, init);
  weights.w_hidden = parameters.get(name + ".weight_hh_l0", {4 * hidden, hidden}, init);
  weights.b_input = parameters.get(name + ".bias_ih_l0", {4 * hidden}, init);
  weights.b_hidden = parameters.get(name + ".bias_hh_l0", {4 * hidden}, init);
  return reshape(rnn(x, {weights}, {.mode = "lstm"}).hidden, {x.shape(1), hidden});
}

}  // namespace lockstep::layers
