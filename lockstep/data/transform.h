// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lockstep/tensor/philox.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::data {

// A change of one sample's first field. What it draws is a function of the key alone; it takes use
// numbers from `key.use` on and says how many.
struct Transform {
  std::string description;
  std::uint32_t uses = 0;  // random words it may draw
  std::function<Tensor(const Tensor&, const RandomKey&)> apply;
  // The same on samples stacked along a first axis, where nothing is drawn and it pays.
  std::function<Tensor(const Tensor&)> apply_batch = {};
  // The same on a mask, whose values are classes and not to be mixed; none: apply does that.
  std::function<Tensor(const Tensor&, const RandomKey&)> apply_mask = {};
  // Instead of apply, on all fields of a sample, which is told its number for messages: see joint.
  std::function<std::vector<Tensor>(std::vector<Tensor>, const RandomKey&, std::int64_t sample)>
      apply_fields = {};
};

// Images are [H, W, C] with pixels of 0 to 255 (uint8 or float32) until to_tensor makes [C, H, W]
// float32 in [0, 1]. Wrong arguments throw InvalidArgument at once, wrong images when applied.

// One after the other.
Transform compose(std::vector<Transform> transforms);
// [C, H, W] float32 in [0, 1] of pixels [H, W, C]; [H, W] counts as one channel.
Transform to_tensor();
// to_tensor and normalize in one pass, the same bits.
Transform to_tensor(std::vector<float> mean, std::vector<float> deviation);
// (x - mean) / deviation on [C, H, W]; one value for each channel, or one for all.
Transform normalize(std::vector<float> mean, std::vector<float> deviation);
Transform cast(DType dtype);                                // to another type
Transform resize(std::int64_t height, std::int64_t width);  // bilinear
// The shorter side becomes `size`.
Transform resize_short(std::int64_t size);
// The middle of the image.
Transform center_crop(std::int64_t height, std::int64_t width);
// A crop of the image with `pad` pixels around, which are `fill`: from 0 to 255, one value for each
// channel or one for all; zero where there is none, and in a mask.
Transform random_crop(std::int64_t height, std::int64_t width, std::int64_t pad = 0,
                      std::vector<float> fill = {});
// A part of the image, of a drawn area and ratio of sides, made height x width.
Transform random_resized_crop(std::int64_t height, std::int64_t width, double min_area = 0.08,
                              double max_area = 1.0, double min_ratio = 3.0 / 4.0,
                              double max_ratio = 4.0 / 3.0);
// Mirrored with probability p.
Transform random_flip_left_right(double p = 0.5);
Transform random_flip_top_bottom(double p = 0.5);  // upside down with probability p
// Degrees, drawn in [-degrees, degrees]; pixels from outside are zero.
Transform random_rotation(double degrees);
// Factors drawn in [1 - x, 1 + x] (not below 0), the hue's turn in [-hue, hue] of the circle.
Transform random_color_jitter(double brightness, double contrast, double saturation,
                              double hue = 0.0);

// For samples of an image, its mask ([H, W] or [H, W, 1], of the image's size) and whatever
// follows: `both` changes the two with the same draws, so that they stay on top of each other; what
// mixes pixels takes the nearest one of a mask, and colours stay the image's. Then `image` and
// `mask` each change their own. Throws InvalidArgument with the sample's number where the sizes
// differ.
Transform joint(const Transform& both, const Transform& image = {}, const Transform& mask = {});

}  // namespace lockstep::data
