// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/layers/spectral_norm.h"

#include <map>

#include "lockstep/base/error.h"
#include "lockstep/nn/detail/layer_checks.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/matmul.h"
#include "lockstep/ops/reduce.h"
#include "lockstep/ops/shape_ops.h"

namespace lockstep::nn {
namespace {

const Block& checked(const BlockPtr& layer) {
  if (layer == nullptr) throw InvalidArgument("spectral_norm: there is no layer");
  return *layer;
}

void check_weight(const Parameter& weight, const SpectralNormOptions& options) {
  const int rank = weight.shape().rank();
  if (rank < 2)
    throw InvalidArgument("spectral_norm: {} has shape {}, expected two axes or more",
                          options.parameter, weight.shape().str());
  if (options.axis < 0 || options.axis >= rank)
    throw InvalidArgument("spectral_norm: axis is {}, {} has {} axes", options.axis,
                          options.parameter, rank);
}

// What parameters are while the layer runs: what they were outside, but for one.
class Replaced {
 public:
  Replaced(const Block& layer, const Parameter& parameter, const Tensor& value) {
    for (const auto& [name, other] : layer.parameters()) values_[other.identity()] = other.data();
    values_[parameter.identity()] = value;
  }
  Tensor get(const Parameter& parameter) const {
    const auto found = values_.find(parameter.identity());
    if (found == values_.end())
      throw InvalidArgument("spectral_norm: forward uses {}, which is no parameter of the layer",
                            parameter.name());
    return found->second;
  }

 private:
  std::map<const void*, Tensor> values_;
};

}  // namespace

SpectralNorm::SpectralNorm(BlockPtr layer, const SpectralNormOptions& options)
    : layer_((checked(layer), add_child("layer", std::move(layer)))),
      options_(options),
      weight_(layer_->parameter(options.parameter)),
      u_(add_parameter("u", {-1}, {.init = init::normal(1.0), .trainable = false})) {
  detail::positive("spectral_norm", "iterations", options_.iterations);
  check_weight(weight_, options_);
}

// The layer may have been replaced. The direction is that of the weight it began with.
void SpectralNorm::find_layer() {
  if (layer_ == children()[0].block) return;
  const BlockPtr layer = children()[0].block;
  const Parameter weight = layer->parameter(options_.parameter);
  check_weight(weight, options_);
  const std::int64_t rows = weight.shape()[options_.axis], expected = u_.shape()[0];
  if (rows >= 0 && expected >= 0 && rows != expected)
    throw InvalidArgument(
        "spectral_norm: {} of the new layer has shape {}, expected {} on axis {} as before",
        options_.parameter, weight.shape().str(), expected, options_.axis);
  layer_ = layer;
  weight_ = weight;
}

void SpectralNorm::complete(const Tensor& x) {
  find_layer();
  if (!weight_.has_whole_shape()) layer_->complete_shapes({x.info()});
  u_.complete({weight_.shape()[options_.axis]});
}

Tensor SpectralNorm::matrix(const Tensor& weight) const {
  const Tensor first = options_.axis == 0 ? weight : swap_axes(weight, 0, options_.axis);
  return reshape(first, {first.shape(0), -1});
}

Tensor SpectralNorm::normalised(const Tensor& vector) const {
  return vector / maximum(norm(vector), options_.epsilon);
}

// Gradients flow through the weight alone: the directions count as constants.
Tensor SpectralNorm::weight() {
  find_layer();
  const Tensor weight = weight_.data(), rows = matrix(weight), fixed = stop_gradient(rows);
  Tensor u = stop_gradient(u_.data()), v;
  for (int i = 0; i < options_.iterations; ++i) {
    v = normalised(matmul(fixed, u, true));
    u = normalised(matmul(fixed, v));
  }
  if (autograd::is_training()) u_.update(u);
  return weight / sum(u * matmul(rows, v));
}

Tensor SpectralNorm::forward(const Tensor& x) {
  complete(x);
  const Replaced replaced(*layer_, weight_, weight());
  const ParameterScope* outer = ParameterScope::current();
  const ParameterScope scope([&](const Parameter& p) { return replaced.get(p); },
                             [&](const Parameter& p, const Tensor& value) {
                               outer != nullptr ? outer->sink()(p, value) : p.set_data(value);
                             });
  return (*layer_)(x);
}

std::string SpectralNorm::description() const {
  return options_.iterations == 1 ? "SpectralNorm"
                                  : fmt::format("SpectralNorm({} iterations)", options_.iterations);
}

std::shared_ptr<SpectralNorm> spectral_norm(BlockPtr layer, const SpectralNormOptions& options) {
  return std::make_shared<SpectralNorm>(std::move(layer), options);
}

}  // namespace lockstep::nn
