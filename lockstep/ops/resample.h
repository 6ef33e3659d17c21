// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/ops/attrs.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep {

struct InterpolateOptions {
  std::string mode = "nearest";  // nearest, nearest_exact or linear
  bool align_corners = false;    // linear: the first and last elements stay where they are
};

// x [N, C, spatial...] with 1 to 3 spatial axes, to other spatial sizes: one for each axis, or one
// for all. Linear means along each axis: bilinear for images, trilinear for volumes.
Tensor interpolate(const Tensor& x, const Ints& size, const InterpolateOptions& options = {});
// To sizes times `scale`, rounded down.
Tensor interpolate_by(const Tensor& x, double scale, const InterpolateOptions& options = {});

// [N, C f f, H, W] to [N, C, H f, W f]: a block of f x f channels becomes a block of places.
Tensor pixel_shuffle(const Tensor& x, std::int64_t factor);
// The other way round.
Tensor pixel_unshuffle(const Tensor& x, std::int64_t factor);

struct GridSampleOptions {
  std::string mode = "bilinear";  // or nearest
  std::string padding = "zeros";  // or border, reflection: what lies outside of x
  bool align_corners = false;     // -1 and 1 are the centres of the corners, not their edges
};

// x [N, C, H, W] at the places of grid [N, H', W', 2]: pairs (x, y) from -1 to 1, left to right and
// top to bottom. Gives [N, C, H', W'].
Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& options = {});

}  // namespace lockstep
