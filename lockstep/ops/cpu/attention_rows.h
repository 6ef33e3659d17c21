// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Row-wise pieces of float32 attention. Rows of scores are padded with room for whole vectors:
// what lies between `count` and the next multiple of kRowPadding belongs to the callee.
namespace lockstep::kernels {

inline constexpr std::int64_t kRowPadding = 64;

// Replaces scores[0, count) by exp(score - max), and scores[count, width) by 0. Returns the sum of
// the exponentials: 0 when no score counts.
float softmax_row(float* scores, std::int64_t count, std::int64_t width);

// Replaces scores by p = exp(score - max - log_sum) and dp by p * (dp - delta) * scale; both are 0
// in [count, width).
struct SoftmaxBackwardRow {
  float log_sum;  // relative to the row's largest score; -inf when no score counts
  float delta;
  float scale;
};
void softmax_backward_row(float* scores, float* dp, std::int64_t count, std::int64_t width,
                          const SoftmaxBackwardRow& row);

float dot_row(const float* a, const float* b, std::int64_t count);
void scale_row(float* x, std::int64_t count, float factor);

}  // namespace lockstep::kernels
