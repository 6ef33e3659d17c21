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
};

// Images are [H, W, C] (uint8 or float32) until to_tensor makes [C, H, W] float32 in [0, 1].
Transform compose(std::vector<Transform> transforms);
Transform to_tensor();
Transform normalize(std::vector<float> mean, std::vector<float> deviation);  // on [C, H, W]
Transform cast(DType dtype);
Transform resize(std::int64_t height, std::int64_t width);  // bilinear
// The shorter side becomes `size`.
Transform resize_short(std::int64_t size);
Transform center_crop(std::int64_t height, std::int64_t width);
// A crop of the image with `pad` zero pixels around.
Transform random_crop(std::int64_t height, std::int64_t width, std::int64_t pad = 0);
Transform random_resized_crop(std::int64_t height, std::int64_t width, double min_area = 0.08,
                              double max_area = 1.0, double min_ratio = 3.0 / 4.0,
                              double max_ratio = 4.0 / 3.0);
Transform random_flip_left_right(double p = 0.5);
Transform random_flip_top_bottom(double p = 0.5);
// Degrees, drawn in [-degrees, degrees]; pixels from outside are zero.
Transform random_rotation(double degrees);
Transform random_color_jitter(double brightness, double contrast, double saturation,
                              double hue = 0.0);

}  // namespace lockstep::data
