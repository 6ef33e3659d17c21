// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/layers/dense.h"

#include "lockstep/base/error.h"
#include "lockstep/nn/detail/layer_checks.h"
#include "lockstep/ops/matmul.h"

namespace lockstep::nn {
namespace {

std::int64_t features_of(const Tensor& x, bool flatten) {
  detail::check_rank("dense", x, 1);
  if (!flatten) return x.shape().back();
  std::int64_t features = 1;
  for (int axis = 1; axis < x.rank(); ++axis) features *= x.shape(axis);
  return features;
}

}  // namespace

Dense::Dense(std::int64_t units, DenseOptions options)
    : units_(detail::positive("dense", "units", units)),
      options_(std::move(options)),
      activation_(find_activation("dense", options_.activation)),
      weight_(add_parameter("weight", {units, options_.inputs}, {.init = options_.weight_init})) {
  if (options_.bias) bias_ = add_parameter("bias", {units}, {.init = options_.bias_init});
}

Tensor Dense::forward(const Tensor& x) {
  weight_.complete({units_, features_of(x, options_.flatten)});
  const Tensor weight = weight_.data();
  const Tensor bias = options_.bias ? bias_.data() : Tensor();
  return activation_(lockstep::dense(x, weight, bias, options_.flatten));
}

std::string Dense::description() const {
  return fmt::format("Dense({}{}{})", units_, options_.activation.empty() ? "" : ", ",
                     options_.activation);
}

std::shared_ptr<Dense> dense(std::int64_t units, DenseOptions options) {
  return std::make_shared<Dense>(units, std::move(options));
}

}  // namespace lockstep::nn
