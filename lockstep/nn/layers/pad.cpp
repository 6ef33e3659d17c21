// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/layers/pad.h"

#include "lockstep/base/error.h"
#include "lockstep/ops/shape_ops.h"

namespace lockstep::nn {

Pad::Pad(int axes, const Extents& widths, const PadOptions& options)
    : axes_(axes),
      widths_(widths.spread(fmt::format("pad{}d", axes), "width", axes, 0)),
      options_(options) {
  const std::string& mode = options.mode;
  if (mode != "constant" && mode != "edge" && mode != "reflect" && mode != "circular")
    throw InvalidArgument("pad{}d: mode is '{}', expected constant, edge, reflect or circular",
                          axes, mode);
}

Tensor Pad::forward(const Tensor& x) {
  if (x.rank() != axes_ + 2)
    throw InvalidArgument("pad{}d: x has shape {}, expected {} axes", axes_, x.shape().str(),
                          axes_ + 2);
  Ints both(4, 0);
  for (const std::int64_t width : widths_) both.insert(both.end(), {width, width});
  return lockstep::pad(x, both, options_.value, options_.mode);
}

std::string Pad::description() const {
  return fmt::format("Pad{}D({}, {})", axes_, Extents(widths_).str(), options_.mode);
}

std::shared_ptr<Pad> pad1d(const Extents& widths, const PadOptions& options) {
  return std::make_shared<Pad>(1, widths, options);
}
std::shared_ptr<Pad> pad2d(const Extents& widths, const PadOptions& options) {
  return std::make_shared<Pad>(2, widths, options);
}
std::shared_ptr<Pad> pad3d(const Extents& widths, const PadOptions& options) {
  return std::make_shared<Pad>(3, widths, options);
}

}  // namespace lockstep::nn
