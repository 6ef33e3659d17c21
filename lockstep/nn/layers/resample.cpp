// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/layers/resample.h"

#include "lockstep/base/error.h"
#include "lockstep/nn/detail/layer_checks.h"
#include "lockstep/nn/layers/extents.h"

namespace lockstep::nn {

Upsample::Upsample(UpsampleOptions options) : options_(std::move(options)) {
  if (options_.size.empty() == (options_.scale == 0.0))
    throw InvalidArgument("upsample: expected a size or a scale, got {}",
                          options_.size.empty() ? "none" : "both");
  if (options_.size.empty() && !(options_.scale > 0.0))
    throw InvalidArgument("upsample: scale is {}, expected more than 0", options_.scale);
}

Tensor Upsample::forward(const Tensor& x) {
  const InterpolateOptions how{options_.mode, options_.align_corners};
  return options_.size.empty() ? lockstep::interpolate_by(x, options_.scale, how)
                               : lockstep::interpolate(x, options_.size, how);
}

std::string Upsample::description() const {
  const std::string size =
      options_.size.empty() ? fmt::format("by {}", options_.scale) : Extents(options_.size).str();
  return fmt::format("Upsample({}, {}{})", size, options_.mode,
                     options_.align_corners ? ", corners aligned" : "");
}

PixelShuffle::PixelShuffle(std::int64_t factor, bool inverse)
    : factor_(detail::positive(inverse ? "pixel_unshuffle" : "pixel_shuffle", "factor", factor)),
      inverse_(inverse) {}

Tensor PixelShuffle::forward(const Tensor& x) {
  return inverse_ ? lockstep::pixel_unshuffle(x, factor_) : lockstep::pixel_shuffle(x, factor_);
}

std::string PixelShuffle::description() const {
  return fmt::format("{}({})", inverse_ ? "PixelUnshuffle" : "PixelShuffle", factor_);
}

std::shared_ptr<Upsample> upsample(UpsampleOptions options) {
  return std::make_shared<Upsample>(std::move(options));
}
std::shared_ptr<PixelShuffle> pixel_shuffle(std::int64_t factor) {
  return std::make_shared<PixelShuffle>(factor, false);
}
std::shared_ptr<PixelShuffle> pixel_unshuffle(std::int64_t factor) {
  return std::make_shared<PixelShuffle>(factor, true);
}

}  // namespace lockstep::nn
