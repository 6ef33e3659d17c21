// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/nn/layers/activation.h"
#include "lockstep/nn/layers/conv.h"
#include "lockstep/nn/layers/dense.h"
#include "lockstep/nn/layers/dropout.h"
#include "lockstep/nn/layers/lambda.h"
#include "lockstep/nn/layers/norm.h"
#include "lockstep/nn/layers/pool.h"
#include "lockstep/nn/models/models.h"
#include "lockstep/ops/elementwise.h"

namespace lockstep::nn::models {
namespace {

BlockPtr relu6() {
  return nn::lambda([](const Tensor& x) { return clip(x, 0.0, 6.0); }, "ReLU6");
}

struct Unit {
  std::int64_t channels;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t groups = 1;
};

// Convolution and norm.
Sequential& add_unit(Sequential& blocks, const Unit& unit) {
  blocks.add(conv2d(
      unit.channels, unit.kernel,
      {.stride = unit.stride, .padding = unit.kernel / 2, .groups = unit.groups, .bias = false}));
  return blocks.add(nn::batch_norm());
}

// The first version: a convolution for each channel by itself, then one over channels.
std::shared_ptr<Sequential> features_v1(double width) {
  struct Pair {
    std::int64_t channels, stride;
  };
  constexpr Pair kPairs[] = {{64, 1},  {128, 2}, {128, 1}, {256, 2}, {256, 1},  {512, 2}, {512, 1},
                             {512, 1}, {512, 1}, {512, 1}, {512, 1}, {1024, 2}, {1024, 1}};
  const auto scaled = [&](std::int64_t channels) {
    return std::max<std::int64_t>(1,
                                  static_cast<std::int64_t>(static_cast<double>(channels) * width));
  };
  const auto all = std::make_shared<Sequential>();
  std::int64_t before = scaled(32);
  add_unit(*all, {before, 3, 2}).add(nn::relu());
  for (const Pair& pair : kPairs) {
    add_unit(*all, {before, 3, pair.stride, before}).add(nn::relu());
    before = scaled(pair.channels);
    add_unit(*all, {before}).add(nn::relu());
  }
  return all;
}

// To a multiple of 8, and not below nine tenths.
std::int64_t rounded(double channels) {
  const auto near = std::max<std::int64_t>(8, static_cast<std::int64_t>(channels + 4.0) / 8 * 8);
  return static_cast<double>(near) < 0.9 * channels ? near + 8 : near;
}

// The second version: widen, filter each channel, narrow without an activation; added to what came
// in where the shape is the same.
class InvertedResidual final : public Block {
 public:
  InvertedResidual(std::int64_t before, std::int64_t after, std::int64_t stride,
                   std::int64_t expansion)
      : adds_(stride == 1 && before == after),
        conv_(add_child("conv", std::make_shared<Sequential>())) {
    const std::int64_t wide = before * expansion;
    if (expansion != 1) add_unit(*conv_, {wide}).add(relu6());
    add_unit(*conv_, {wide, 3, stride, wide}).add(relu6());
    add_unit(*conv_, {after});
  }

  Tensor forward(const Tensor& x) override {
    const Tensor y = (*conv_)(x);
    return adds_ ? add(x, y) : y;
  }
  std::string description() const override { return "InvertedResidual"; }

 private:
  bool adds_;
  std::shared_ptr<Sequential> conv_;
};

std::shared_ptr<Sequential> features_v2(double width) {
  struct Stage {
    std::int64_t expansion, channels, blocks, stride;
  };
  constexpr Stage kStages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                               {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  const auto all = std::make_shared<Sequential>();
  std::int64_t before = rounded(32.0 * width);
  add_unit(*all, {before, 3, 2}).add(relu6());
  for (const Stage& stage : kStages) {
    const std::int64_t after = rounded(static_cast<double>(stage.channels) * width);
    for (std::int64_t i = 0; i < stage.blocks; ++i) {
      all->add(std::make_shared<InvertedResidual>(before, after, i == 0 ? stage.stride : 1,
                                                  stage.expansion));
      before = after;
    }
  }
  add_unit(*all, {rounded(1280.0 * std::max(1.0, width))}).add(relu6());
  return all;
}

class MobileNet final : public Block {
 public:
  explicit MobileNet(const MobileNetOptions& options)
      : options_(options),
        features_(add_child("features", options.version == 1 ? features_v1(options.width)
                                                             : features_v2(options.width))),
        pool_(global_avg_pool2d()),
        drop_(nn::dropout(options.version == 1 ? 0.0 : 0.2)),
        classifier_(add_child("classifier", nn::dense(options.classes))) {}

  Tensor forward(const Tensor& x) override {
    return (*classifier_)((*drop_)((*pool_)((*features_)(x))));
  }
  std::string description() const override {
    return fmt::format("MobileNet(v{}, {})", options_.version, options_.width);
  }

 private:
  MobileNetOptions options_;
  std::shared_ptr<Sequential> features_;
  std::shared_ptr<GlobalPool> pool_;
  std::shared_ptr<Dropout> drop_;
  std::shared_ptr<Dense> classifier_;
};

}  // namespace

BlockPtr mobilenet(const MobileNetOptions& options) {
  if (options.version != 1 && options.version != 2)
    throw InvalidArgument("mobilenet: version is {}, expected 1 or 2", options.version);
  if (!(options.width > 0.0 && options.width <= 16.0))
    throw InvalidArgument("mobilenet: width is {}, expected more than 0, up to 16", options.width);
  return std::make_shared<MobileNet>(options);
}

}  // namespace lockstep::nn::models
