// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/layers/pool.h"

#include "lockstep/base/error.h"

namespace lockstep::nn {
namespace {

const char* name_of(PoolKind kind) { return kind == PoolKind::max ? "max" : "avg"; }
const char* title_of(PoolKind kind) { return kind == PoolKind::max ? "Max" : "Avg"; }

void check_axes(const std::string& layer, const Tensor& x, int axes) {
  if (x.rank() != axes + 2)
    throw InvalidArgument("{}: x has shape {}, expected {} axes", layer, x.shape().str(), axes + 2);
}

}  // namespace

Pool::Pool(PoolKind kind, int axes, const Extents& kernel, const PoolLayerOptions& options)
    : kind_(kind), axes_(axes), name_(fmt::format("{}_pool{}d", name_of(kind), axes)) {
  window_.kernel = kernel.spread(name_, "kernel", axes, 1);
  window_.stride =
      options.stride.empty() ? window_.kernel : options.stride.spread(name_, "stride", axes, 1);
  window_.padding = options.padding.spread(name_, "padding", axes, 0);
  window_.ceil_mode = options.ceil_mode;
  window_.count_include_pad = options.count_include_pad;
  window_.dilation = options.dilation.spread(name_, "dilation", axes, 1);
  if (kind == PoolKind::avg && !options.dilation.are_all(1))
    throw InvalidArgument("{}: dilation is {}, an average has none", name_, options.dilation.str());
}

Tensor Pool::forward(const Tensor& x) {
  check_axes(name_, x, axes_);
  return kind_ == PoolKind::max ? lockstep::max_pool(x, window_) : lockstep::avg_pool(x, window_);
}

std::string Pool::description() const {
  std::string text =
      fmt::format("{}Pool{}D({}", title_of(kind_), axes_, Extents(window_.kernel).str());
  if (window_.stride != window_.kernel) text += ", stride " + Extents(window_.stride).str();
  const Extents padding = window_.padding;
  if (!padding.are_all(0)) text += ", padding " + padding.str();
  const Extents dilation = window_.dilation;
  if (!dilation.are_all(1)) text += ", dilation " + dilation.str();
  return text + ")";
}

Tensor GlobalPool::forward(const Tensor& x) {
  check_axes(fmt::format("global_{}_pool{}d", name_of(kind_), axes_), x, axes_);
  return kind_ == PoolKind::max ? lockstep::global_max_pool(x) : lockstep::global_avg_pool(x);
}

std::string GlobalPool::description() const {
  return fmt::format("Global{}Pool{}D", title_of(kind_), axes_);
}

AdaptivePool::AdaptivePool(PoolKind kind, int axes, const Extents& sizes)
    : kind_(kind),
      axes_(axes),
      name_(fmt::format("adaptive_{}_pool{}d", name_of(kind), axes)),
      sizes_(sizes.spread(name_, "size", axes, 1)) {}

Tensor AdaptivePool::forward(const Tensor& x) {
  check_axes(name_, x, axes_);
  return kind_ == PoolKind::max ? lockstep::adaptive_max_pool(x, sizes_)
                                : lockstep::adaptive_avg_pool(x, sizes_);
}

std::string AdaptivePool::description() const {
  return fmt::format("Adaptive{}Pool{}D({})", title_of(kind_), axes_, Extents(sizes_).str());
}

std::shared_ptr<Pool> max_pool1d(const Extents& kernel, const PoolLayerOptions& options) {
  return std::make_shared<Pool>(PoolKind::max, 1, kernel, options);
}
std::shared_ptr<Pool> max_pool2d(const Extents& kernel, const PoolLayerOptions& options) {
  return std::make_shared<Pool>(PoolKind::max, 2, kernel, options);
}
std::shared_ptr<Pool> max_pool3d(const Extents& kernel, const PoolLayerOptions& options) {
  return std::make_shared<Pool>(PoolKind::max, 3, kernel, options);
}
std::shared_ptr<Pool> avg_pool1d(const Extents& kernel, const PoolLayerOptions& options) {
  return std::make_shared<Pool>(PoolKind::avg, 1, kernel, options);
}
std::shared_ptr<Pool> avg_pool2d(const Extents& kernel, const PoolLayerOptions& options) {
  return std::make_shared<Pool>(PoolKind::avg, 2, kernel, options);
}
std::shared_ptr<Pool> avg_pool3d(const Extents& kernel, const PoolLayerOptions& options) {
  return std::make_shared<Pool>(PoolKind::avg, 3, kernel, options);
}

std::shared_ptr<GlobalPool> global_max_pool1d() {
  return std::make_shared<GlobalPool>(PoolKind::max, 1);
}
std::shared_ptr<GlobalPool> global_max_pool2d() {
  return std::make_shared<GlobalPool>(PoolKind::max, 2);
}
std::shared_ptr<GlobalPool> global_max_pool3d() {
  return std::make_shared<GlobalPool>(PoolKind::max, 3);
}
std::shared_ptr<GlobalPool> global_avg_pool1d() {
  return std::make_shared<GlobalPool>(PoolKind::avg, 1);
}
std::shared_ptr<GlobalPool> global_avg_pool2d() {
  return std::make_shared<GlobalPool>(PoolKind::avg, 2);
}
std::shared_ptr<GlobalPool> global_avg_pool3d() {
  return std::make_shared<GlobalPool>(PoolKind::avg, 3);
}

std::shared_ptr<AdaptivePool> adaptive_avg_pool1d(const Extents& sizes) {
  return std::make_shared<AdaptivePool>(PoolKind::avg, 1, sizes);
}
std::shared_ptr<AdaptivePool> adaptive_avg_pool2d(const Extents& sizes) {
  return std::make_shared<AdaptivePool>(PoolKind::avg, 2, sizes);
}
std::shared_ptr<AdaptivePool> adaptive_avg_pool3d(const Extents& sizes) {
  return std::make_shared<AdaptivePool>(PoolKind::avg, 3, sizes);
}
std::shared_ptr<AdaptivePool> adaptive_max_pool1d(const Extents& sizes) {
  return std::make_shared<AdaptivePool>(PoolKind::max, 1, sizes);
}
std::shared_ptr<AdaptivePool> adaptive_max_pool2d(const Extents& sizes) {
  return std::make_shared<AdaptivePool>(PoolKind::max, 2, sizes);
}
std::shared_ptr<AdaptivePool> adaptive_max_pool3d(const Extents& sizes) {
  return std::make_shared<AdaptivePool>(PoolKind::max, 3, sizes);
}

}  // namespace lockstep::nn
