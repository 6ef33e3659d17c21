// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/kvstore/kvstore.h"

// What the stores have in common.
namespace lockstep::kvstore {

std::span<float> floats(const Tensor& tensor);
Tensor as_float32(const Tensor& tensor);

// Each throws InvalidArgument, which names the operation and the key.
void check_type(const char* what, const Key& key, const Tensor& tensor);
void check_shape(const char* what, const Key& key, const Tensor& tensor, const Shape& expected);
void check_rows(const char* what, const Key& key, const Shape& shape,
                const std::vector<std::int64_t>& ids);
// Unsupported for one that clips by the norm of all gradients.
void check_rule(const optim::OptimizerPtr& rule);

// Each id once, in order.
std::vector<std::int64_t> sorted_ids(std::vector<std::int64_t> ids);
// The shape of so many rows of a value.
Shape rows_shape(const Shape& shape, std::int64_t rows);
std::size_t row_width(const Shape& shape);

}  // namespace lockstep::kvstore
