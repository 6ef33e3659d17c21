// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/layers/embedding.h"

#include "lockstep/nn/detail/layer_checks.h"
#include "lockstep/ops/index_ops.h"

namespace lockstep::nn {

Embedding::Embedding(std::int64_t rows, std::int64_t width, const EmbeddingOptions& options)
    : weight_(add_parameter("weight",
                            {detail::positive("embedding", "rows", rows),
                             detail::positive("embedding", "width", width)},
                            {.init = options.weight_init})) {}

Tensor Embedding::forward(const Tensor& indices) {
  return lockstep::embedding(indices, weight_.data());
}

std::string Embedding::description() const {
  return fmt::format("Embedding({}, {})", weight_.shape()[0], weight_.shape()[1]);
}

std::shared_ptr<Embedding> embedding(std::int64_t rows, std::int64_t width,
                                     const EmbeddingOptions& options) {
  return std::make_shared<Embedding>(rows, width, options);
}

}  // namespace lockstep::nn
