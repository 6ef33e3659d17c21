// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/error.h"
#include "lockstep/nn/layers/embedding.h"
#include "lockstep/nn/models/recommenders.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/reduce.h"
#include "lockstep/ops/shape_ops.h"

namespace lockstep::nn::models {
namespace {

constexpr double kSigma = 0.1;

class MatrixFactorization final : public Block {
 public:
  explicit MatrixFactorization(const MatrixFactorizationOptions& options)
      : user_(vectors("user", options.users, options.width)),
        item_(vectors("item", options.items, options.width)),
        user_bias_(biases("user_bias", options.users)),
        item_bias_(biases("item_bias", options.items)),
        mean_(add_parameter("mean", {1},
                            {.init = init::constant(options.mean), .decay_multiplier = 0.0})) {}

  std::vector<Tensor> forward_all(const std::vector<Tensor>& ids) override {
    if (ids.size() != 2)
      throw InvalidArgument("MatrixFactorization: got {} inputs, expected users and items",
                            ids.size());
    const Tensor product = sum((*user_)(ids[0]) * (*item_)(ids[1]), {-1});
    const Tensor bias = squeeze((*user_bias_)(ids[0]) + (*item_bias_)(ids[1]), {-1});
    return {product + bias + mean_.data()};
  }
  std::string description() const override { return "MatrixFactorization"; }

 private:
  std::shared_ptr<Embedding> vectors(const char* name, std::int64_t rows, std::int64_t width) {
    return add_child(name, nn::embedding(rows, width, {.weight_init = init::normal(kSigma)}));
  }
  std::shared_ptr<Embedding> biases(const char* name, std::int64_t rows) {
    return add_child(name, nn::embedding(rows, 1, {.weight_init = init::zero()}));
  }

  std::shared_ptr<Embedding> user_, item_, user_bias_, item_bias_;
  Parameter mean_;
};

}  // namespace

BlockPtr matrix_factorization(const MatrixFactorizationOptions& options) {
  return std::make_shared<MatrixFactorization>(options);
}

}  // namespace lockstep::nn::models
