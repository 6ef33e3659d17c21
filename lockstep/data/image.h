// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "lockstep/tensor/tensor.h"

namespace lockstep::data {

// Images are [H, W, C] with pixels of 0 to 255, uint8 or float32. Results have the image's dtype;
// for uint8 they are rounded to the nearest. Each throws InvalidArgument on anything else.

// Throws InvalidArgument that begins with `who`.
void check_image(const char* who, const Tensor& image);

// The window from (top, left), which may reach outside: there pixels are `fill`, one value for each
// channel or one for all, or zero.
Tensor crop_image(const Tensor& image, std::int64_t top, std::int64_t left, std::int64_t height,
                  std::int64_t width, std::span<const float> fill = {});
Tensor flip_left_right(const Tensor& image);
Tensor flip_top_bottom(const Tensor& image);

// Bilinear, pixels' centres at half numbers, edges repeated.
Tensor resize_image(const Tensor& image, std::int64_t height, std::int64_t width);
// Counter-clockwise about the centre, bilinear; pixels from outside are zero.
Tensor rotate_image(const Tensor& image, double degrees);

// The same of masks, whose values are classes: each pixel is the nearest one of the mask.
Tensor resize_mask(const Tensor& mask, std::int64_t height, std::int64_t width);
Tensor rotate_mask(const Tensor& mask, double degrees);

// Factors of 1 and a hue turn of 0 (of 1 for the whole circle) leave the image as it is.
struct ColorChange {
  double brightness = 1.0;  // times every value
  double contrast = 1.0;    // distance from the image's mean grey
  double saturation = 1.0;  // distance from the pixel's own grey
  double hue = 0.0;
};

// One after the other in the struct's order, values kept within 0 to 255. One channel has no
// saturation and no hue. Throws InvalidArgument unless there are 1 or 3 channels.
Tensor change_color(const Tensor& image, const ColorChange& change);

}  // namespace lockstep::data
