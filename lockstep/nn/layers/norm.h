// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/nn/block.h"

namespace lockstep::nn {

struct NormOptions {
  double epsilon = 1e-5;
  bool center = true;          // with beta
  bool scale = true;           // with gamma
  std::int64_t channels = -1;  // -1: told by the first input
  Initializer gamma_init = init::one();
  Initializer beta_init = init::zero();
};

struct BatchNormOptions {
  double momentum = 0.9;
  double epsilon = 1e-5;
  bool center = true;
  bool scale = true;
  bool use_global_stats = false;  // the running statistics in train mode too
  std::int64_t channels = -1;
  Initializer gamma_init = init::one();
  Initializer beta_init = init::zero();
};

// What the norms have in common: gamma and beta, each of which may be switched off.
class NormBlock : public Block {
 protected:
  explicit NormBlock(const NormOptions& options);
  // Ones or zeros where there is none.
  Tensor gamma(const Tensor& x, std::int64_t channels) const;
  Tensor beta(const Tensor& x, std::int64_t channels) const;
  double epsilon() const { return epsilon_; }

 private:
  double epsilon_;
  Parameter gamma_, beta_;
};

// With statistics of all batches so far: running_mean and running_var, of each channel (axis 1).
class RunningNorm : public NormBlock {
 protected:
  explicit RunningNorm(const BatchNormOptions& options);
  // Tells the statistics their shapes.
  void complete(std::int64_t channels) const;
  // With the statistics so far, in place of a batch's.
  Tensor by_running(const Tensor& x, const Tensor& scale, const Tensor& shift) const;
  double momentum() const { return momentum_; }
  bool uses_global_stats() const { return use_global_stats_; }
  const Parameter& running_mean() const { return mean_; }
  const Parameter& running_var() const { return var_; }

 private:
  double momentum_;
  bool use_global_stats_;
  Parameter mean_, var_;
};

// Over all axes but 1. In train mode with the batch's statistics, which move running_mean and
// running_var; in predict mode with those.
class BatchNorm : public RunningNorm {
 public:
  explicit BatchNorm(const BatchNormOptions& options = {}) : RunningNorm(options) {}
  Tensor forward(const Tensor& x) override;
  std::string description() const override { return "BatchNorm"; }
};

// Over the last axis.
class LayerNorm : public NormBlock {
 public:
  explicit LayerNorm(const NormOptions& options = {}) : NormBlock(options) {}
  Tensor forward(const Tensor& x) override;
  std::string description() const override { return "LayerNorm"; }
};

// Over each of `groups` groups of channels (axis 1) and all spatial axes.
class GroupNorm : public NormBlock {
 public:
  explicit GroupNorm(int groups, const NormOptions& options = {});
  Tensor forward(const Tensor& x) override;
  std::string description() const override;

 private:
  int groups_;
};

// Over the spatial axes of each channel of each sample.
class InstanceNorm : public NormBlock {
 public:
  explicit InstanceNorm(const NormOptions& options = {}) : NormBlock(options) {}
  Tensor forward(const Tensor& x) override;
  std::string description() const override { return "InstanceNorm"; }
};

std::shared_ptr<BatchNorm> batch_norm(const BatchNormOptions& options = {});
std::shared_ptr<LayerNorm> layer_norm(const NormOptions& options = {});
std::shared_ptr<GroupNorm> group_norm(int groups, const NormOptions& options = {});
std::shared_ptr<InstanceNorm> instance_norm(const NormOptions& options = {});

}  // namespace lockstep::nn
