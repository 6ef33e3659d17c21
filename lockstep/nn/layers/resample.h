// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/nn/block.h"
#include "lockstep/ops/resample.h"

namespace lockstep::nn {

// Either the spatial sizes of the result, or by what each is multiplied.
struct UpsampleOptions {
  Ints size = {};                // one for each spatial axis, or one for all
  double scale = 0.0;            // the result's sizes are rounded down
  std::string mode = "nearest";  // or nearest_exact, linear (along every axis: bilinear, trilinear)
  bool align_corners = false;    // linear: the first and last elements stay where they are
};

// x [N, C, spatial...] with 1 to 3 spatial axes, made larger or smaller; see lockstep::interpolate.
class Upsample : public Block {
 public:
  explicit Upsample(UpsampleOptions options);
  Tensor forward(const Tensor& x) override;
  std::string description() const override;

 private:
  UpsampleOptions options_;
};

// Channels become places, or places channels; see lockstep::pixel_shuffle.
class PixelShuffle : public Block {
 public:
  PixelShuffle(std::int64_t factor, bool inverse);
  Tensor forward(const Tensor& x) override;
  std::string description() const override;

 private:
  std::int64_t factor_;
  bool inverse_;
};

std::shared_ptr<Upsample> upsample(UpsampleOptions options);
std::shared_ptr<PixelShuffle> pixel_shuffle(std::int64_t factor);
std::shared_ptr<PixelShuffle> pixel_unshuffle(std::int64_t factor);

}  // namespace lockstep::nn
