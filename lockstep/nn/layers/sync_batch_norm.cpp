// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/layers/sync_batch_norm.h"

#include "lockstep/autograd/autograd.h"
#include "lockstep/nn/detail/layer_checks.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/reduce.h"
#include "lockstep/ops/shape_ops.h"
#include "lockstep/ops/shard_ops.h"
#include "lockstep/ops/unary.h"

namespace lockstep::nn {
namespace {

Ints all_axes_but_channels(const Tensor& x) {
  Ints axes{0};
  for (int axis = 2; axis < x.shape().rank(); ++axis) axes.push_back(axis);
  return axes;
}

// A number for each channel, as x has them.
Tensor by_channel(const Tensor& numbers, const Tensor& x) {
  Ints shape(static_cast<std::size_t>(x.shape().rank()), 1);
  shape[1] = x.shape(1);
  return reshape(numbers, shape);
}

}  // namespace

// The variance is that of the differences from the mean of all shards, so that nothing is lost
// where the mean is large: the shards meet twice.
Tensor SyncBatchNorm::forward(const Tensor& x) {
  detail::check_rank("sync_batch_norm", x, 2);
  const std::int64_t channels = x.shape(1);
  complete(channels);
  const Tensor scale = gamma(x, channels), shift = beta(x, channels);
  if (uses_global_stats() || !autograd::is_training()) return by_running(x, scale, shift);
  const Ints axes = all_axes_but_channels(x);
  const Tensor middle = shard_mean(mean(x, axes)).y;
  const Tensor difference = x - by_channel(middle, x);
  const auto [variance, shards] = shard_mean(mean(square(difference), axes));
  const double rest = 1.0 - momentum();
  const Tensor values = shards * (static_cast<double>(x.numel()) / static_cast<double>(channels));
  const Tensor unbiased = variance * (values / maximum(values - 1.0, 1.0));
  running_mean().update(stop_gradient(running_mean().data() * momentum() + middle * rest));
  running_var().update(stop_gradient(running_var().data() * momentum() + unbiased * rest));
  return difference * by_channel(scale * rsqrt(variance + epsilon()), x) + by_channel(shift, x);
}

std::shared_ptr<SyncBatchNorm> sync_batch_norm(const BatchNormOptions& options) {
  return std::make_shared<SyncBatchNorm>(options);
}

}  // namespace lockstep::nn
