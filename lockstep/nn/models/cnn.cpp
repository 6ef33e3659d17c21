// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/layers/conv.h"
#include "lockstep/nn/layers/dense.h"
#include "lockstep/nn/layers/dropout.h"
#include "lockstep/nn/models/models.h"
#include "lockstep/ops/pool.h"
#include "lockstep/ops/unary.h"

namespace lockstep::nn::models {
namespace {

class Cnn final : public Block {
 public:
  Cnn(std::string name, const CnnOptions& options)
      : name_(std::move(name)),
        conv1_(add_child("conv1", conv2d(options.width, 3, {.padding = 1}))),
        conv2_(add_child("conv2", conv2d(2 * options.width, 3, {.padding = 1}))),
        fc1_(add_child("fc1", nn::dense(options.hidden))),
        fc2_(add_child("fc2", nn::dense(options.classes))),
        drop_(nn::dropout(options.dropout)) {}

  Tensor forward(const Tensor& x) override {
    Tensor y = max_pool(lockstep::relu((*conv1_)(x)), {.kernel = {2}});
    y = max_pool(lockstep::relu((*conv2_)(y)), {.kernel = {2}});
    return (*fc2_)((*drop_)(lockstep::relu((*fc1_)((*drop_)(y)))));
  }
  std::string description() const override { return name_; }

 private:
  std::string name_;
  std::shared_ptr<Conv> conv1_, conv2_;
  std::shared_ptr<Dense> fc1_, fc2_;
  std::shared_ptr<Dropout> drop_;
};

}  // namespace

BlockPtr lenet(const CnnOptions& options) { return std::make_shared<Cnn>("LeNet", options); }
BlockPtr cifar_cnn(const CnnOptions& options) { return std::make_shared<Cnn>("CifarCnn", options); }

}  // namespace lockstep::nn::models
