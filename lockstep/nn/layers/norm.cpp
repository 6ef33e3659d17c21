// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/layers/norm.h"

#include "lockstep/base/error.h"
#include "lockstep/nn/detail/layer_checks.h"
#include "lockstep/nn/functional.h"
#include "lockstep/ops/create.h"

namespace lockstep::nn {
namespace {

NormOptions common(const BatchNormOptions& options) {
  return {.epsilon = options.epsilon,
          .center = options.center,
          .scale = options.scale,
          .channels = options.channels,
          .gamma_init = options.gamma_init,
          .beta_init = options.beta_init};
}

// Says which layer it is: nets have many.
void check_variance(const Tensor& x, const std::string& parameter) {
  const std::size_t dot = parameter.rfind('.');
  if (x.shape(1) == 0 || x.numel() / x.shape(1) != 1) return;
  throw InvalidArgument(
      "batch_norm: {} gets shape {}: one value per channel has no variance to train with; use a "
      "larger batch, or fewer shards",
      dot == std::string::npos ? "the layer" : parameter.substr(0, dot), x.shape().str());
}

}  // namespace

NormBlock::NormBlock(const NormOptions& options) : epsilon_(options.epsilon) {
  if (options.scale)
    gamma_ = add_parameter("gamma", {options.channels}, {.init = options.gamma_init});
  if (options.center)
    beta_ = add_parameter("beta", {options.channels}, {.init = options.beta_init});
}

Tensor NormBlock::gamma(const Tensor& x, std::int64_t channels) const {
  if (!gamma_.defined()) return ones({channels}, x.dtype(), x.device());
  gamma_.complete({channels});
  return gamma_.data();
}

Tensor NormBlock::beta(const Tensor& x, std::int64_t channels) const {
  if (!beta_.defined()) return zeros({channels}, x.dtype(), x.device());
  beta_.complete({channels});
  return beta_.data();
}

RunningNorm::RunningNorm(const BatchNormOptions& options)
    : NormBlock(common(options)),
      momentum_(options.momentum),
      use_global_stats_(options.use_global_stats),
      mean_(add_parameter("running_mean", {options.channels},
                          {.init = init::zero(), .trainable = false})),
      var_(add_parameter("running_var", {options.channels},
                         {.init = init::one(), .trainable = false})) {}

void RunningNorm::complete(std::int64_t channels) const {
  mean_.complete({channels});
  var_.complete({channels});
}

Tensor RunningNorm::by_running(const Tensor& x, const Tensor& scale, const Tensor& shift) const {
  return batch_norm_inference(x, scale, shift, mean_.data(), var_.data(), epsilon());
}

Tensor BatchNorm::forward(const Tensor& x) {
  detail::check_rank("batch_norm", x, 2);
  const std::int64_t channels = x.shape(1);
  complete(channels);
  const Tensor scale = gamma(x, channels), shift = beta(x, channels);
  if (uses_global_stats()) return by_running(x, scale, shift);
  if (autograd::is_training()) check_variance(x, running_mean().name());
  const BatchNormResult result = nn::batch_norm(x, scale, shift, running_mean().data(),
                                                running_var().data(), momentum(), epsilon());
  if (autograd::is_training()) {
    running_mean().update(result.mean);
    running_var().update(result.var);
  }
  return result.y;
}

Tensor LayerNorm::forward(const Tensor& x) {
  detail::check_rank("layer_norm", x, 1);
  const std::int64_t size = x.shape().back();
  const Tensor scale = gamma(x, size), shift = beta(x, size);
  return lockstep::layer_norm(x, scale, shift, epsilon());
}

GroupNorm::GroupNorm(int groups, const NormOptions& options) : NormBlock(options), groups_(groups) {
  detail::positive("group_norm", "groups", groups);
}

Tensor GroupNorm::forward(const Tensor& x) {
  detail::check_rank("group_norm", x, 2);
  const std::int64_t channels = x.shape(1);
  const Tensor scale = gamma(x, channels), shift = beta(x, channels);
  return lockstep::group_norm(x, scale, shift, groups_, epsilon());
}

std::string GroupNorm::description() const { return fmt::format("GroupNorm({})", groups_); }

Tensor InstanceNorm::forward(const Tensor& x) {
  detail::check_rank("instance_norm", x, 2);
  const std::int64_t channels = x.shape(1);
  const Tensor scale = gamma(x, channels), shift = beta(x, channels);
  return lockstep::instance_norm(x, scale, shift, epsilon());
}

std::shared_ptr<BatchNorm> batch_norm(const BatchNormOptions& options) {
  return std::make_shared<BatchNorm>(options);
}
std::shared_ptr<LayerNorm> layer_norm(const NormOptions& options) {
  return std::make_shared<LayerNorm>(options);
}
std::shared_ptr<GroupNorm> group_norm(int groups, const NormOptions& options) {
  return std::make_shared<GroupNorm>(groups, options);
}
std::shared_ptr<InstanceNorm> instance_norm(const NormOptions& options) {
  return std::make_shared<InstanceNorm>(options);
}

}  // namespace lockstep::nn
