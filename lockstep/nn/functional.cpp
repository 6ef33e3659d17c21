// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/functional.h"

#include <algorithm>

#include "lockstep/autograd/autograd.h"
#include "lockstep/base/error.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/messages.h"
#include "lockstep/ops/random_ops.h"
#include "lockstep/ops/shape_ops.h"

namespace lockstep::nn {
namespace {

// `correction` makes the batch's figure one of what it was drawn from.
Tensor moved(const Tensor& running, const Tensor& batch, double momentum, double correction = 1.0) {
  if (!(running.info() == batch.info()))
    throw InvalidArgument("batch_norm: running statistics are {}, expected {}",
                          running.info().str(), batch.info().str());
  return stop_gradient(running * momentum + batch * ((1.0 - momentum) * correction));
}

}  // namespace

Tensor dropout(const Tensor& x, double p) {
  if (autograd::is_training()) return lockstep::dropout(x, p);
  detail::check_defined("dropout", x);
  if (!(p >= 0.0 && p < 1.0)) throw InvalidArgument("dropout: p is {}, expected 0 <= p < 1", p);
  return x;
}

BatchNormResult batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                           const Tensor& running_mean, const Tensor& running_var, double momentum,
                           double epsilon) {
  if (!running_mean.defined() || !running_var.defined())
    throw InvalidArgument("batch_norm: running statistics are undefined");
  if (!(momentum >= 0.0 && momentum <= 1.0))
    throw InvalidArgument("batch_norm: momentum is {}, expected 0 to 1", momentum);
  if (!autograd::is_training()) {
    const Tensor y = detail::named("batch_norm", [&] {
      return batch_norm_inference(x, gamma, beta, running_mean, running_var, epsilon);
    });
    return {y, running_mean, running_var};
  }
  const BatchNormResult batch = lockstep::batch_norm(x, gamma, beta, epsilon);
  const std::int64_t values = x.numel() / std::max<std::int64_t>(1, batch.mean.numel());
  if (values == 1)
    throw InvalidArgument(
        "batch_norm: x has shape {}: one value per channel has no variance to train with; use a "
        "larger batch, or fewer shards",
        x.shape().str());
  // Divided by n, the variance of n values is (n - 1) / n of what all data have, on average.
  const auto n = static_cast<double>(values);
  return {batch.y, moved(running_mean, batch.mean, momentum),
          moved(running_var, batch.var, momentum, n / std::max(1.0, n - 1.0))};
}

}  // namespace lockstep::nn
