// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/layers/embedding.h"

#include "lockstep/nn/detail/layer_checks.h"
#include "lockstep/ops/create.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/index_ops.h"
#include "lockstep/ops/shape_ops.h"

namespace lockstep::nn {

namespace {

// Negative ones count from the end.
std::optional<std::int64_t> checked_index(std::optional<std::int64_t> index, std::int64_t rows) {
  if (!index) return index;
  if (*index < -rows || *index >= rows)
    throw InvalidArgument("embedding: padding_index is {}, the table has {} rows", *index, rows);
  return *index < 0 ? *index + rows : *index;
}

std::function<Tensor(const Tensor&)> zero_row(std::optional<std::int64_t> index) {
  if (!index) return nullptr;
  return [row = static_cast<double>(*index)](const Tensor& table) {
    const Tensor rows = arange(0.0, static_cast<double>(table.shape(0)), 1.0, DType::int64);
    return where(expand_dims(equal(rows, row), 1), zeros({}, table.dtype()), table);
  };
}

}  // namespace

Embedding::Embedding(std::int64_t rows, std::int64_t width, const EmbeddingOptions& options)
    : padding_index_(checked_index(options.padding_index, rows)),
      weight_(add_parameter("weight",
                            {detail::positive("embedding", "rows", rows),
                             detail::positive("embedding", "width", width)},
                            {.init = options.weight_init,
                             .after_init = zero_row(padding_index_),
                             .sparse_grad = options.sparse_grad,
                             .padding_row = padding_index_})) {}

Tensor Embedding::forward(const Tensor& indices) {
  const Tensor y = lockstep::embedding(indices, weight_.data());
  if (!padding_index_) return y;
  const Tensor padding = equal(indices, static_cast<double>(*padding_index_));
  return where(expand_dims(padding, -1), stop_gradient(y), y);
}

std::string Embedding::description() const {
  const std::string padding = padding_index_ ? fmt::format(", padding {}", *padding_index_) : "";
  const char* sparse = weight_.options().sparse_grad ? ", sparse gradients" : "";
  return fmt::format("Embedding({}, {}{}{})", weight_.shape()[0], weight_.shape()[1], padding,
                     sparse);
}

std::shared_ptr<Embedding> embedding(std::int64_t rows, std::int64_t width,
                                     const EmbeddingOptions& options) {
  return std::make_shared<Embedding>(rows, width, options);
}

}  // namespace lockstep::nn
