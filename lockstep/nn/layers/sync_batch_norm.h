// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/nn/layers/norm.h"

namespace lockstep::nn {

// Batch norm over the global batch: in a training step the shards, on whichever workers and
// threads, meet here, and have the mean and the variance of all of them. It computes as batch norm
// with one shard does, and the bits are the same on any number of workers and threads. Elsewhere it
// is batch norm.
class SyncBatchNorm : public RunningNorm {
 public:
  explicit SyncBatchNorm(const BatchNormOptions& options = {}) : RunningNorm(options) {}
  Tensor forward(const Tensor& x) override;
  std::string description() const override { return "SyncBatchNorm"; }
};

std::shared_ptr<SyncBatchNorm> sync_batch_norm(const BatchNormOptions& options = {});

}  // namespace lockstep::nn
