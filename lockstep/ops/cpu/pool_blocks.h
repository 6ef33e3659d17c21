// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/pool_attrs.h"

namespace lockstep::kernels {

// Max pools of planes whose elements are blocks of channels: [planes, spatial..., block].
struct BlockedPool {
  PoolProblem problem;         // planes: images * blocks of an image
  std::int64_t block;          // 8 or 16
  std::int64_t image_blocks;   // blocks of an image
  std::int64_t last_channels;  // in an image's last block; the rest of it is padding
};

// float32 or bfloat16; `workspace` may be null.
void max_pool_blocks(const BlockedPool& pool, DType dtype, const std::byte* x, std::byte* y,
                     std::uint8_t* workspace);
// float32.
void max_pool_blocks_backward(const BlockedPool& pool, const float* dy,
                              const std::uint8_t* workspace, float* dx);

}  // namespace lockstep::kernels
