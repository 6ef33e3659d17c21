// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "lockstep/nn/block.h"

namespace lockstep::nn {

struct EmbeddingOptions {
  Initializer weight_init = {};
  // This row starts at zero and gets no gradient, so that it stays there: padding's.
  std::optional<std::int64_t> padding_index = {};
  // A training step has gradients of the rows that its batch names, and changes these alone, with
  // what the rule keeps for them: for tables of which a batch names a small part.
  bool sparse_grad = false;
};

// Rows of weight [rows, width] by int32 or int64 indices: their shape + [width].
class Embedding : public Block {
 public:
  Embedding(std::int64_t rows, std::int64_t width, const EmbeddingOptions& options = {});
  Tensor forward(const Tensor& indices) override;
  std::string description() const override;

 private:
  std::optional<std::int64_t> padding_index_;
  Parameter weight_;
};

std::shared_ptr<Embedding> embedding(std::int64_t rows, std::int64_t width,
                                     const EmbeddingOptions& options = {});

}  // namespace lockstep::nn
