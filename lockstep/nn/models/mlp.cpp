// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/layers/dense.h"
#include "lockstep/nn/layers/dropout.h"
#include "lockstep/nn/models/models.h"
#include "lockstep/ops/unary.h"

namespace lockstep::nn::models {
namespace {

class Mlp final : public Block {
 public:
  explicit Mlp(const MlpOptions& options) : drop_(nn::dropout(options.dropout)) {
    std::vector<std::int64_t> units = options.hidden;
    units.push_back(options.classes);
    for (const std::int64_t size : units)
      layers_.push_back(add_child("fc" + std::to_string(layers_.size() + 1), nn::dense(size)));
  }

  Tensor forward(const Tensor& x) override {
    Tensor y = x;
    for (std::size_t i = 0; i + 1 < layers_.size(); ++i)
      y = (*drop_)(lockstep::relu((*layers_[i])(y)));
    return (*layers_.back())(y);
  }
  std::string description() const override { return "Mlp"; }

 private:
  std::shared_ptr<Dropout> drop_;
  std::vector<std::shared_ptr<Dense>> layers_;
};

}  // namespace

BlockPtr mlp(const MlpOptions& options) { return std::make_shared<Mlp>(options); }

}  // namespace lockstep::nn::models
