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
      : user_(table("user", options.users, options.width, init::normal(kSigma), options)),
        item_(table("item", options.items, options.width, init::normal(kSigma), options)),
        user_bias_(table("user_bias", options.users, 1, init::zero(), options)),
        item_bias_(table("item_bias", options.items, 1, init::zero(), options)),
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
  std::shared_ptr<Embedding> table(const char* name, std::int64_t rows, std::int64_t width,
                                   const Initializer& init,
                                   const MatrixFactorizationOptions& options) {
    return add_child(
        name,
        nn::embedding(rows, width, {.weight_init = init, .sparse_grad = options.sparse_grad}));
  }

  std::shared_ptr<Embedding> user_, item_, user_bias_, item_bias_;
  Parameter mean_;
};

}  // namespace

BlockPtr matrix_factorization(const MatrixFactorizationOptions& options) {
  return std::make_shared<MatrixFactorization>(options);
}

}  // namespace lockstep::nn::models
