// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "lockstep/base/error.h"
#include "lockstep/nn/layers/conv.h"
#include "lockstep/nn/layers/dense.h"
#include "lockstep/nn/layers/norm.h"
#include "lockstep/nn/models/models.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/pool.h"
#include "lockstep/ops/unary.h"

namespace lockstep::nn::models {
namespace {

using Conv2D = std::shared_ptr<Conv>;
using Norm = std::shared_ptr<BatchNorm>;

struct Sizes {
  std::int64_t before;  // channels that come in
  std::int64_t width;   // of the 3x3 convolutions
  std::int64_t after;   // channels that go out
  std::int64_t stride;
  bool keeps_shape() const { return stride == 1 && before == after; }
};

Conv2D plain_conv(std::int64_t channels, std::int64_t kernel, std::int64_t stride = 1) {
  return conv2d(channels, kernel, {.stride = stride, .padding = kernel / 2, .bias = false});
}

// Two 3x3 convolutions, or 1x1, 3x3 and 1x1 (the stride is the 3x3's), each with its norm, and a
// shortcut past them.
class Residual : public Block {
 public:
  Residual(const Sizes& sizes, bool bottleneck) {
    if (bottleneck) {
      add_pair(sizes.width, 1, 1);
      add_pair(sizes.width, 3, sizes.stride);
      add_pair(sizes.after, 1, 1);
    } else {
      add_pair(sizes.width, 3, sizes.stride);
      add_pair(sizes.after, 3, 1);
    }
  }

 protected:
  std::size_t pairs() const { return convs_.size(); }
  Tensor conv(std::size_t i, const Tensor& x) const { return (*convs_[i])(x); }
  Tensor norm(std::size_t i, const Tensor& x) const { return (*norms_[i])(x); }

 private:
  void add_pair(std::int64_t channels, std::int64_t kernel, std::int64_t stride) {
    const std::string number = std::to_string(convs_.size() + 1);
    convs_.push_back(add_child("conv" + number, plain_conv(channels, kernel, stride)));
    norms_.push_back(add_child("bn" + number, nn::batch_norm()));
  }

  std::vector<Conv2D> convs_;
  std::vector<Norm> norms_;
};

class ResidualV1 final : public Residual {
 public:
  ResidualV1(const Sizes& sizes, bool bottleneck) : Residual(sizes, bottleneck) {
    if (!sizes.keeps_shape())
      shortcut_ = add_child("downsample",
                            sequential(plain_conv(sizes.after, 1, sizes.stride), nn::batch_norm()));
  }

  Tensor forward(const Tensor& x) override {
    Tensor y = x;
    for (std::size_t i = 0; i + 1 < pairs(); ++i) y = lockstep::relu(norm(i, conv(i, y)));
    y = norm(pairs() - 1, conv(pairs() - 1, y));
    return lockstep::relu(add(y, shortcut_ ? (*shortcut_)(x) : x));
  }
  std::string description() const override { return "ResidualV1"; }

 private:
  std::shared_ptr<Sequential> shortcut_;
};

class ResidualV2 final : public Residual {
 public:
  ResidualV2(const Sizes& sizes, bool bottleneck) : Residual(sizes, bottleneck) {
    if (!sizes.keeps_shape())
      shortcut_ = add_child("downsample", plain_conv(sizes.after, 1, sizes.stride));
  }

  Tensor forward(const Tensor& x) override {
    const Tensor active = lockstep::relu(norm(0, x));
    Tensor y = conv(0, active);
    for (std::size_t i = 1; i < pairs(); ++i) y = conv(i, lockstep::relu(norm(i, y)));
    return add(y, shortcut_ ? (*shortcut_)(active) : x);
  }
  std::string description() const override { return "ResidualV2"; }

 private:
  Conv2D shortcut_;
};

struct Depth {
  int layers;
  bool bottleneck;
  std::array<int, 4> blocks;
};

constexpr Depth kDepths[] = {{18, false, {2, 2, 2, 2}},
                             {34, false, {3, 4, 6, 3}},
                             {50, true, {3, 4, 6, 3}},
                             {101, true, {3, 4, 23, 3}},
                             {152, true, {3, 8, 36, 3}}};

const Depth& find_depth(int layers) {
  for (const Depth& depth : kDepths)
    if (depth.layers == layers) return depth;
  throw InvalidArgument("resnet: layers is {}, expected 18, 34, 50, 101 or 152", layers);
}

BlockPtr residual(int version, const Sizes& sizes, bool bottleneck) {
  if (version == 1) return std::make_shared<ResidualV1>(sizes, bottleneck);
  return std::make_shared<ResidualV2>(sizes, bottleneck);
}

class ResNet final : public Block {
 public:
  explicit ResNet(const ResNetOptions& options) : options_(options) {
    if (options.version != 1 && options.version != 2)
      throw InvalidArgument("resnet: version is {}, expected 1 or 2", options.version);
    const Depth& depth = find_depth(options.layers);
    conv1_ = add_child("conv1", options.small_images ? plain_conv(64, 3) : plain_conv(64, 7, 2));
    if (has_stem_norm()) bn1_ = add_child("bn1", nn::batch_norm());
    std::int64_t before = 64;
    for (std::size_t i = 0; i < depth.blocks.size(); ++i) before = add_stage(depth, i, before);
    if (options.version == 2) bn_ = add_child("bn", nn::batch_norm());
    fc_ = add_child("fc", nn::dense(options.classes));
  }

  Tensor forward(const Tensor& x) override {
    Tensor y = (*conv1_)(x);
    if (bn1_) y = lockstep::relu((*bn1_)(y));
    if (!options_.small_images) y = max_pool(y, {.kernel = {3}, .stride = {2}, .padding = {1}});
    for (const auto& stage : stages_) y = (*stage)(y);
    if (bn_) y = lockstep::relu((*bn_)(y));
    return (*fc_)(global_avg_pool(y));
  }
  std::string description() const override {
    return fmt::format("ResNet{}(v{})", options_.layers, options_.version);
  }

 private:
  // The second version's first block begins with norm and relu; behind a pool they are needed
  // before it too.
  bool has_stem_norm() const { return options_.version == 1 || !options_.small_images; }

  std::int64_t add_stage(const Depth& depth, std::size_t index, std::int64_t before) {
    const std::int64_t width = std::int64_t{64} << index;
    const std::int64_t after = depth.bottleneck ? 4 * width : width;
    const auto stage = std::make_shared<Sequential>();
    for (int i = 0; i < depth.blocks[index]; ++i) {
      const std::int64_t stride = i == 0 && index > 0 ? 2 : 1;
      stage->add(residual(options_.version, {before, width, after, stride}, depth.bottleneck));
      before = after;
    }
    stages_.push_back(add_child("layer" + std::to_string(index + 1), stage));
    return after;
  }

  ResNetOptions options_;
  Conv2D conv1_;
  Norm bn1_, bn_;
  std::vector<std::shared_ptr<Sequential>> stages_;
  std::shared_ptr<Dense> fc_;
};

}  // namespace

BlockPtr resnet(const ResNetOptions& options) { return std::make_shared<ResNet>(options); }

BlockPtr cifar_resnet18(std::int64_t classes) {
  return resnet({.layers = 18, .classes = classes, .small_images = true});
}

}  // namespace lockstep::nn::models
