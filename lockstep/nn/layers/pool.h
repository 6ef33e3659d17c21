// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/nn/block.h"
#include "lockstep/nn/layers/extents.h"
#include "lockstep/ops/pool.h"

namespace lockstep::nn {

struct PoolLayerOptions {
  Extents stride = {};  // none: the kernel's size
  Extents padding = 0;
  bool ceil_mode = false;
  bool count_include_pad = true;  // average: does padding count
  Extents dilation = 1;           // max: the distance of a window's elements
};

enum class PoolKind { max, avg };

// The largest, or the mean, of each window of x [N, C, spatial...], 1 to 3 spatial axes.
class Pool : public Block {
 public:
  Pool(PoolKind kind, int axes, const Extents& kernel, const PoolLayerOptions& options = {});
  Tensor forward(const Tensor& x) override;
  std::string description() const override;

 private:
  PoolKind kind_;
  int axes_;
  std::string name_;  // "max_pool2d"
  PoolOptions window_;
};

// The largest, or the mean, of each channel: to [N, C, 1...].
class GlobalPool : public Block {
 public:
  GlobalPool(PoolKind kind, int axes) : kind_(kind), axes_(axes) {}
  Tensor forward(const Tensor& x) override;
  std::string description() const override;

 private:
  PoolKind kind_;
  int axes_;
};

// To [N, C, sizes...], windows as even as they can be.
class AdaptivePool : public Block {
 public:
  AdaptivePool(PoolKind kind, int axes, const Extents& sizes);
  Tensor forward(const Tensor& x) override;
  std::string description() const override;

 private:
  PoolKind kind_;
  int axes_;
  std::string name_;  // "adaptive_avg_pool2d"
  Ints sizes_;
};

std::shared_ptr<Pool> max_pool1d(const Extents& kernel, const PoolLayerOptions& options = {});
std::shared_ptr<Pool> max_pool2d(const Extents& kernel, const PoolLayerOptions& options = {});
std::shared_ptr<Pool> max_pool3d(const Extents& kernel, const PoolLayerOptions& options = {});
std::shared_ptr<Pool> avg_pool1d(const Extents& kernel, const PoolLayerOptions& options = {});
std::shared_ptr<Pool> avg_pool2d(const Extents& kernel, const PoolLayerOptions& options = {});
std::shared_ptr<Pool> avg_pool3d(const Extents& kernel, const PoolLayerOptions& options = {});
std::shared_ptr<GlobalPool> global_max_pool1d();
std::shared_ptr<GlobalPool> global_max_pool2d();
std::shared_ptr<GlobalPool> global_max_pool3d();
std::shared_ptr<GlobalPool> global_avg_pool1d();
std::shared_ptr<GlobalPool> global_avg_pool2d();
std::shared_ptr<GlobalPool> global_avg_pool3d();
std::shared_ptr<AdaptivePool> adaptive_avg_pool1d(const Extents& sizes);
std::shared_ptr<AdaptivePool> adaptive_avg_pool2d(const Extents& sizes);
std::shared_ptr<AdaptivePool> adaptive_avg_pool3d(const Extents& sizes);
std::shared_ptr<AdaptivePool> adaptive_max_pool1d(const Extents& sizes);
std::shared_ptr<AdaptivePool> adaptive_max_pool2d(const Extents& sizes);
std::shared_ptr<AdaptivePool> adaptive_max_pool3d(const Extents& sizes);

}  // namespace lockstep::nn
