// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "lockstep/ops/attention_attrs.h"
#include "lockstep/ops/cpu/attention.h"

namespace lockstep::kernels {

// The sizes of one attention call, read from q, k and v.
struct AttentionProblem {
  std::int64_t batch, heads, rows, columns, depth, value_depth;
  bool causal;
  double scale;

  AttentionProblem(const TensorView& q, const TensorView& k, const TensorView& v,
                   const AttentionAttrs& attrs)
      : batch(q.shape[0]),
        heads(q.shape[1]),
        rows(q.shape[2]),
        columns(k.shape[2]),
        depth(q.shape[3]),
        value_depth(v.shape[3]),
        causal(attrs.causal),
        scale(attrs.scale_for(q.shape[3])) {}

  // How many columns, from the first, row i sees.
  std::int64_t visible(std::int64_t row) const {
    if (!causal) return columns;
    return std::clamp<std::int64_t>(row + columns - rows + 1, 0, columns);
  }
};

// A mask read as [B, H, T, S], or none.
class MaskView {
 public:
  MaskView(const AttentionProblem& problem, const TensorView* mask) : mask_(mask) {
    if (mask == nullptr) return;
    strides_ = broadcast_strides(mask->shape, mask->strides,
                                 {problem.batch, problem.heads, problem.rows, problem.columns});
  }

  bool none() const { return mask_ == nullptr; }

  // Whether one row sees any of its first `count` columns. T is the scores' type.
  template <class T>
  bool shows(std::int64_t b, std::int64_t h, std::int64_t row, std::int64_t count) const {
    if (none()) return count > 0;
    const std::int64_t start = b * strides_[0] + h * strides_[1] + row * strides_[2];
    for (std::int64_t j = 0; j < count; ++j) {
      const std::int64_t at = start + j * strides_[3];
      if (mask_->dtype == DType::boolean
              ? mask_->as<bool>()[at]
              : mask_->as<T>()[at] != -std::numeric_limits<T>::infinity())
        return true;
    }
    return false;
  }

  // scores[0, count) of one row: the float mask added, or -inf where a bool mask says false.
  template <class T>
  void apply(T* scores, std::int64_t b, std::int64_t h, std::int64_t row,
             std::int64_t count) const {
    const std::int64_t start = b * strides_[0] + h * strides_[1] + row * strides_[2];
    const std::int64_t step = strides_[3];
    if (mask_->dtype == DType::boolean) {
      const bool* keep = mask_->as<bool>() + start;
      for (std::int64_t j = 0; j < count; ++j)
        if (!keep[j * step]) scores[j] = -std::numeric_limits<T>::infinity();
    } else {
      const T* added = mask_->as<T>() + start;
      for (std::int64_t j = 0; j < count; ++j) scores[j] += added[j * step];
    }
  }

 private:
  const TensorView* mask_;
  Strides strides_ = {};
};

}  // namespace lockstep::kernels
