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

namespace lockstep::nn::models {
namespace {

struct Depth {
  int layers;
  std::array<int, 5> convolutions;  // of each stage
};

constexpr Depth kDepths[] = {
    {11, {1, 1, 2, 2, 2}}, {13, {2, 2, 2, 2, 2}}, {16, {2, 2, 3, 3, 3}}, {19, {2, 2, 4, 4, 4}}};

const Depth& find_depth(int layers) {
  for (const Depth& depth : kDepths)
    if (depth.layers == layers) return depth;
  throw InvalidArgument("vgg: layers is {}, expected 11, 13, 16 or 19", layers);
}

std::shared_ptr<Sequential> features(const VggOptions& options) {
  const Depth& depth = find_depth(options.layers);
  const auto all = std::make_shared<Sequential>();
  for (std::size_t stage = 0; stage < depth.convolutions.size(); ++stage) {
    const std::int64_t channels = std::min<std::int64_t>(512, std::int64_t{64} << stage);
    for (int i = 0; i < depth.convolutions[stage]; ++i) {
      all->add(conv2d(channels, 3, {.padding = 1}));
      if (options.batch_norm) all->add(nn::batch_norm());
      all->add(nn::relu());
    }
    all->add(max_pool2d(2));
  }
  return all;
}

std::shared_ptr<Sequential> classifier(const VggOptions& options) {
  const auto all = std::make_shared<Sequential>();
  for (int i = 0; i < 2; ++i)
    all->add(nn::dense(options.hidden, {.activation = "relu"})).add(nn::dropout(options.dropout));
  all->add(nn::dense(options.classes));
  return all;
}

class Vgg final : public Block {
 public:
  explicit Vgg(const VggOptions& options)
      : options_(options),
        features_(add_child("features", features(options))),
        classifier_(add_child("classifier", classifier(options))) {}

  Tensor forward(const Tensor& x) override { return (*classifier_)((*features_)(x)); }
  std::string description() const override { return fmt::format("Vgg{}", options_.layers); }

 private:
  VggOptions options_;
  std::shared_ptr<Sequential> features_, classifier_;
};

}  // namespace

BlockPtr vgg(const VggOptions& options) { return std::make_shared<Vgg>(options); }

}  // namespace lockstep::nn::models
