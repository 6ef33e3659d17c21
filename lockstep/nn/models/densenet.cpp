// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "lockstep/base/error.h"
#include "lockstep/nn/layers/activation.h"
#include "lockstep/nn/layers/conv.h"
#include "lockstep/nn/layers/dense.h"
#include "lockstep/nn/layers/dropout.h"
#include "lockstep/nn/layers/norm.h"
#include "lockstep/nn/layers/pool.h"
#include "lockstep/nn/models/models.h"
#include "lockstep/ops/shape_ops.h"
#include "lockstep/ops/unary.h"

namespace lockstep::nn::models {
namespace {

struct Depth {
  int layers;
  std::int64_t first, growth;
  std::array<int, 4> blocks;
};

constexpr Depth kDepths[] = {{121, 64, 32, {6, 12, 24, 16}},
                             {161, 96, 48, {6, 12, 36, 24}},
                             {169, 64, 32, {6, 12, 32, 32}},
                             {201, 64, 32, {6, 12, 48, 32}}};

const Depth& find_depth(int layers) {
  for (const Depth& depth : kDepths)
    if (depth.layers == layers) return depth;
  throw InvalidArgument("densenet: layers is {}, expected 121, 161, 169 or 201", layers);
}

// `growth` new channels behind those that came in.
class DenseLayer final : public Block {
 public:
  DenseLayer(std::int64_t growth, double dropout)
      : norm1_(add_child("norm1", nn::batch_norm())),
        conv1_(add_child("conv1", conv2d(4 * growth, 1, {.bias = false}))),
        norm2_(add_child("norm2", nn::batch_norm())),
        conv2_(add_child("conv2", conv2d(growth, 3, {.padding = 1, .bias = false}))),
        drop_(nn::dropout(dropout)) {}

  Tensor forward(const Tensor& x) override {
    const Tensor narrow = (*conv1_)(lockstep::relu((*norm1_)(x)));
    const Tensor added = (*conv2_)(lockstep::relu((*norm2_)(narrow)));
    return concat({x, (*drop_)(added)}, 1);
  }
  std::string description() const override { return "DenseLayer"; }

 private:
  std::shared_ptr<BatchNorm> norm1_;
  std::shared_ptr<Conv> conv1_;
  std::shared_ptr<BatchNorm> norm2_;
  std::shared_ptr<Conv> conv2_;
  std::shared_ptr<Dropout> drop_;
};

// Half as many channels, half as high and wide.
std::shared_ptr<Sequential> transition(std::int64_t channels) {
  return sequential(nn::batch_norm(), nn::relu(), conv2d(channels, 1, {.bias = false}),
                    avg_pool2d(2));
}

std::shared_ptr<Sequential> features(const DenseNetOptions& options) {
  const Depth& depth = find_depth(options.layers);
  const auto all =
      sequential(conv2d(depth.first, 7, {.stride = 2, .padding = 3, .bias = false}),
                 nn::batch_norm(), nn::relu(), max_pool2d(3, {.stride = 2, .padding = 1}));
  std::int64_t channels = depth.first;
  for (std::size_t i = 0; i < depth.blocks.size(); ++i) {
    const auto block = std::make_shared<Sequential>();
    for (int layer = 0; layer < depth.blocks[i]; ++layer)
      block->add(std::make_shared<DenseLayer>(depth.growth, options.dropout));
    all->add(block);
    channels += depth.growth * depth.blocks[i];
    if (i + 1 < depth.blocks.size()) all->add(transition(channels /= 2));
  }
  all->add(nn::batch_norm()).add(nn::relu()).add(global_avg_pool2d());
  return all;
}

class DenseNet final : public Block {
 public:
  explicit DenseNet(const DenseNetOptions& options)
      : options_(options),
        features_(add_child("features", features(options))),
        classifier_(add_child("classifier", nn::dense(options.classes))) {}

  Tensor forward(const Tensor& x) override { return (*classifier_)((*features_)(x)); }
  std::string description() const override { return fmt::format("DenseNet{}", options_.layers); }

 private:
  DenseNetOptions options_;
  std::shared_ptr<Sequential> features_;
  std::shared_ptr<Dense> classifier_;
};

}  // namespace

BlockPtr densenet(const DenseNetOptions& options) { return std::make_shared<DenseNet>(options); }

}  // namespace lockstep::nn::models
