// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/nn/block.h"

namespace lockstep::nn {

struct EmbeddingOptions {
  Initializer weight_init = {};
};

// Rows of weight [rows, width] by int32 or int64 indices: their shape + [width].
class Embedding : public Block {
 public:
  Embedding(std::int64_t rows, std::int64_t width, const EmbeddingOptions& options = {});
  Tensor forward(const Tensor& indices) override;
  std::string description() const override;

 private:
  Parameter weight_;
};

std::shared_ptr<Embedding> embedding(std::int64_t rows, std::int64_t width,
                                     const EmbeddingOptions& options = {});

}  // namespace lockstep::nn
