// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/error.h"
#include "lockstep/nn/layers/attention.h"
#include "lockstep/nn/layers/conv.h"
#include "lockstep/nn/layers/dense.h"
#include "lockstep/nn/layers/dropout.h"
#include "lockstep/nn/layers/embedding.h"
#include "lockstep/nn/layers/norm.h"
#include "lockstep/nn/models/models.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/reduce.h"
#include "lockstep/ops/shape_ops.h"

namespace lockstep::nn::models {
namespace {

constexpr double kSigma = 0.02;

const VitOptions& checked(const VitOptions& options) {
  if (options.patch < 1 || options.image < options.patch || options.image % options.patch != 0)
    throw InvalidArgument("vit: an image of {} with patches of {}, expected a multiple",
                          options.image, options.patch);
  return options;
}

class Vit final : public Block {
 public:
  explicit Vit(const VitOptions& options)
      : options_(checked(options)),
        patch_(add_child("patch",
                         nn::conv2d(options.width, options.patch, {.stride = options.patch}))),
        position_(add_child("position", nn::embedding(patches(), options.width,
                                                      {.weight_init = init::normal(kSigma)}))
                      ->parameter("weight")),
        blocks_(add_child("blocks", std::make_shared<Sequential>())),
        ln_(add_child("ln", nn::layer_norm({.channels = options.width}))),
        head_(add_child("head", nn::dense(options.classes, {.inputs = options.width}))),
        drop_(nn::dropout(options.dropout)) {
    for (int i = 0; i < options.blocks; ++i)
      blocks_->add(transformer_encoder_block(
          options.width, options.heads, {.hidden = 2 * options.width, .dropout = options.dropout}));
  }

  Tensor forward(const Tensor& images) override {
    if (images.rank() != 4 || images.shape(2) != options_.image ||
        images.shape(3) != options_.image)
      throw InvalidArgument("vit: images have shape {}, expected [N, C, {}, {}]",
                            images.shape().str(), options_.image, options_.image);
    const Tensor tokens = swap_axes(flatten((*patch_)(images), 2), 1, 2);
    const Tensor x = (*drop_)(add(tokens, position_.data()));
    return (*head_)(mean((*ln_)((*blocks_)(x)), {1}));
  }
  std::string description() const override {
    return fmt::format("Vit({}, {} heads, {} blocks, {} patches)", options_.width, options_.heads,
                       options_.blocks, patches());
  }

 private:
  std::int64_t patches() const {
    const std::int64_t side = options_.image / options_.patch;
    return side * side;
  }

  VitOptions options_;
  std::shared_ptr<Conv> patch_;
  Parameter position_;
  std::shared_ptr<Sequential> blocks_;
  std::shared_ptr<LayerNorm> ln_;
  std::shared_ptr<Dense> head_;
  std::shared_ptr<Dropout> drop_;
};

}  // namespace

BlockPtr vit(const VitOptions& options) { return std::make_shared<Vit>(options); }

}  // namespace lockstep::nn::models
