// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <span>
#include <vector>

#include "lockstep/data/detail/pixels.h"
#include "lockstep/data/image.h"

namespace lockstep::data {

namespace {

using Values = std::span<float>;

float limited(float value) { return std::clamp(value, 0.0f, 255.0f); }

// The luma of ITU-R BT.601, as in television and JPEG.
float grey(const float* pixel, std::int64_t channels) {
  if (channels == 1) return pixel[0];
  return 0.299f * pixel[0] + 0.587f * pixel[1] + 0.114f * pixel[2];
}

// center + (value - center) * factor is the value itself for a factor of 1.
void spread(float& value, float center, float factor) {
  value = limited(center + (value - center) * factor);
}

void change_brightness(Values values, float factor) {
  for (float& value : values) value = limited(value * factor);
}

void change_contrast(Values values, std::int64_t channels, float factor) {
  double sum = 0.0;
  const auto step = static_cast<std::size_t>(channels);
  for (std::size_t i = 0; i < values.size(); i += step) sum += grey(&values[i], channels);
  const std::size_t pixels = values.size() / step;
  for (float& value : values)
    spread(value, static_cast<float>(sum / static_cast<double>(pixels)), factor);
}

void change_saturation(Values values, float factor) {
  for (std::size_t i = 0; i < values.size(); i += 3) {
    const float center = grey(&values[i], 3);
    for (std::size_t c = 0; c < 3; ++c) spread(values[i + c], center, factor);
  }
}

// The hue in sixths of the circle, 0 for red, 2 for green, 4 for blue.
float hue_of(const float* pixel, float high, float range) {
  if (range == 0.0f) return 0.0f;
  if (high == pixel[0]) return (pixel[1] - pixel[2]) / range;
  if (high == pixel[1]) return 2.0f + (pixel[2] - pixel[0]) / range;
  return 4.0f + (pixel[0] - pixel[1]) / range;
}

// A channel falls for a sixth of the circle, stays low for two, rises for one and stays high for
// two; `at` is how far the pixel is on that way, up to three times around.
float channel_of(float at, float high, float range) {
  at = at >= 12.0f ? at - 12.0f : at;
  at = at >= 6.0f ? at - 6.0f : at;
  return high - range * std::clamp(std::min(at, 4.0f - at), 0.0f, 1.0f);
}

// Value and saturation stay; the hue turns by `sixths`, 0 to 6.
void change_hue(Values values, float sixths) {
  for (std::size_t i = 0; i < values.size(); i += 3) {
    float* pixel = &values[i];
    const float high = std::max({pixel[0], pixel[1], pixel[2]});
    const float range = high - std::min({pixel[0], pixel[1], pixel[2]});
    const float hue = hue_of(pixel, high, range) + sixths;
    pixel[0] = channel_of(hue + 5.0f, high, range);
    pixel[1] = channel_of(hue + 3.0f, high, range);
    pixel[2] = channel_of(hue + 1.0f, high, range);
  }
}

void change_values(Values values, std::int64_t channels, const ColorChange& change) {
  if (change.brightness != 1.0) change_brightness(values, static_cast<float>(change.brightness));
  if (change.contrast != 1.0)
    change_contrast(values, channels, static_cast<float>(change.contrast));
  if (channels == 3 && change.saturation != 1.0)
    change_saturation(values, static_cast<float>(change.saturation));
  if (channels == 3 && change.hue != 0.0)
    change_hue(values, static_cast<float>(6.0 * (change.hue - std::floor(change.hue))));
}

}  // namespace

Tensor change_color(const Tensor& image, const ColorChange& change) {
  check_image("color", image);
  const std::int64_t channels = image.shape(2);
  if (channels != 1 && channels != 3)
    throw InvalidArgument("color: the image has {} channels, expected 1 or 3", channels);
  std::vector<float> values = image.to_vector<float>();
  change_values(values, channels, change);
  Tensor result = Tensor::empty(image.shape(), image.dtype());
  detail::visit_pixels(image, [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::transform(values.begin(), values.end(), result.data<T>(), detail::to_pixel<T>);
  });
  return result;
}

}  // namespace lockstep::data
