// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "lockstep/tensor/tensor.h"

namespace lockstep {

// begin:end:step; what is left out is what Python takes.
struct Slice {
  std::optional<std::int64_t> begin = std::nullopt;
  std::optional<std::int64_t> end = std::nullopt;
  std::optional<std::int64_t> step = std::nullopt;
};

struct NewAxis {};
struct Ellipsis {};
inline constexpr NewAxis newaxis{};
inline constexpr Ellipsis ellipsis{};

// One item between NumPy's brackets: an integer, a slice, a new axis, an ellipsis, a boolean mask
// or a tensor of integers.
class Index {
 public:
  Index(int position) : item_(static_cast<std::int64_t>(position)) {}
  Index(std::int64_t position) : item_(position) {}
  Index(Slice slice) : item_(slice) {}
  Index(NewAxis axis) : item_(axis) {}
  Index(Ellipsis rest) : item_(rest) {}
  Index(Tensor indices_or_mask) : item_(std::move(indices_or_mask)) {}

  using Item = std::variant<std::int64_t, Slice, NewAxis, Ellipsis, Tensor>;
  const Item& item() const { return item_; }

 private:
  Item item_;
};

// x[indices] by NumPy's rules, the place of broadcast indices among the axes included. Integers,
// slices and new axes give a window on x's memory; tensors give a copy. Differentiable.
Tensor index(const Tensor& x, const std::vector<Index>& indices);
// target[indices] = value (broadcast, converted). Not recorded: while something records, a
// target or a value that has a gradient is an InvalidArgument. Where an element is named twice, the
// last value stays.
void index_assign(const Tensor& target, const std::vector<Index>& indices, const Tensor& value);

// Positions in a row-major array of shape `dims`, from one tensor of indices for each axis; they
// broadcast, and negative ones count from the end. int64.
Tensor ravel_index(const std::vector<Tensor>& indices, const Shape& dims);

}  // namespace lockstep
