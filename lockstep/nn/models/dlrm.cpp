// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/error.h"
#include "lockstep/nn/layers/dense.h"
#include "lockstep/nn/layers/embedding.h"
#include "lockstep/nn/models/recommenders.h"
#include "lockstep/ops/matmul.h"
#include "lockstep/ops/shape_ops.h"

namespace lockstep::nn::models {
namespace {

constexpr double kSigma = 0.1;

std::shared_ptr<Sequential> dense_net(const std::vector<std::int64_t>& units) {
  auto net = std::make_shared<Sequential>();
  for (const std::int64_t width : units) net->add(nn::dense(width, {.activation = "relu"}));
  return net;
}

class Dlrm final : public Block {
 public:
  explicit Dlrm(const DlrmOptions& options)
      : bottom_(add_child("bottom", dense_net(options.bottom))),
        embeddings_(add_child("embeddings", std::make_shared<Sequential>())),
        top_(add_child("top", dense_net(options.top))) {
    bottom_->add(nn::dense(options.width, {.activation = "relu"}));
    top_->add(nn::dense(1));
    for (const std::int64_t rows : options.rows)
      embeddings_->add(
          nn::embedding(rows, options.width,
                        {.weight_init = init::normal(kSigma), .sparse_grad = options.sparse_grad}));
  }

  std::vector<Tensor> forward_all(const std::vector<Tensor>& inputs) override {
    if (inputs.size() != embeddings_->size() + 1)
      throw InvalidArgument("Dlrm: got {} inputs, expected features and {} categories",
                            inputs.size(), embeddings_->size());
    std::vector<Tensor> vectors{(*bottom_)(inputs[0])};
    for (std::size_t i = 0; i < embeddings_->size(); ++i)
      vectors.push_back((*embeddings_)[i](inputs[i + 1]));
    const Tensor top = (*top_)(concat({vectors[0], products(vectors)}, 1));
    return {squeeze(top, {1})};
  }
  std::string description() const override { return "Dlrm"; }

 private:
  // Of each pair of them once: [N, n (n - 1) / 2], the rows below the diagonal of all products.
  static Tensor products(const std::vector<Tensor>& vectors) {
    const Tensor all = stack(vectors, 1);
    const Tensor products = matmul(all, all, false, true);
    std::vector<Tensor> rows;
    const auto count = static_cast<std::int64_t>(vectors.size());
    for (std::int64_t i = 1; i < count; ++i)
      rows.push_back(squeeze(slice_axis(slice_axis(products, 1, i, i + 1), 2, 0, i), {1}));
    return concat(rows, 1);
  }

  std::shared_ptr<Sequential> bottom_, embeddings_, top_;
};

}  // namespace

BlockPtr dlrm(const DlrmOptions& options) { return std::make_shared<Dlrm>(options); }

}  // namespace lockstep::nn::models
