// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/transform.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "lockstep/data/detail/draw.h"
#include "lockstep/data/detail/masks.h"
#include "lockstep/data/image.h"

namespace lockstep::data {

namespace {

using detail::below;
using detail::uniform;

void check_positive(const char* who, const char* what, std::int64_t value) {
  if (value < 1) throw InvalidArgument("{}: {} is {}, expected 1 or more", who, what, value);
}

void check_size(const char* who, std::int64_t height, std::int64_t width) {
  check_positive(who, "height", height);
  check_positive(who, "width", width);
}

void check_range(const char* who, const char* what, double value, double low, double high) {
  if (!(value >= low && value <= high))
    throw InvalidArgument("{}: {} is {}, expected {} to {}", who, what, value, low, high);
}

void check_fits(const char* who, std::int64_t height, std::int64_t width, std::int64_t crop_height,
                std::int64_t crop_width) {
  if (height < crop_height || width < crop_width)
    throw InvalidArgument("{}: the image is {} x {}, the crop {} x {}", who, height, width,
                          crop_height, crop_width);
}

// Each transform's words come after those of the ones before it.
Tensor apply_all(const std::vector<Transform>& transforms, Tensor value, RandomKey key) {
  for (const Transform& transform : transforms) {
    value = transform.apply(value, key);
    key.use += transform.uses;
  }
  return value;
}

Tensor apply_all_batch(const std::vector<Transform>& transforms, Tensor value) {
  for (const Transform& transform : transforms) value = transform.apply_batch(value);
  return value;
}

std::string joined(const std::vector<Transform>& transforms) {
  std::string text;
  for (const Transform& transform : transforms)
    text += (text.empty() ? "" : ", ") + transform.description;
  return text;
}

Tensor converted(const Tensor& value, DType dtype) {
  if (value.dtype() == dtype) return value;
  Tensor result = Tensor::empty(value.shape(), dtype);
  result.assign(value);
  return result;
}

Transform random_flip(const char* who, double p, Tensor (*flip)(const Tensor&)) {
  check_range(who, "p", p, 0.0, 1.0);
  return {fmt::format("{}(p={})", who, p), 1, [p, flip](const Tensor& image, const RandomKey& key) {
            return uniform(key, 0, 0.0, 1.0) < p ? flip(image) : image;
          }};
}

struct Window {
  std::int64_t top, left, height, width;
};

struct ResizedCrop {
  static constexpr std::uint32_t kTries = 10;
  static constexpr std::uint32_t kUses = 4 * kTries;
  std::int64_t height, width;
  double min_area, max_area, min_ratio, max_ratio;

  // A window of the drawn area and ratio, if it fits into the image.
  bool draw(const Tensor& image, const RandomKey& key, std::uint32_t word, Window& window) const {
    const auto rows = image.shape(0), columns = image.shape(1);
    const double area =
        uniform(key, word, min_area, max_area) * static_cast<double>(rows * columns);
    const double ratio = std::exp(uniform(key, word + 1, std::log(min_ratio), std::log(max_ratio)));
    window.width = std::llround(std::sqrt(area * ratio));
    window.height = std::llround(std::sqrt(area / ratio));
    if (window.width < 1 || window.height < 1 || window.width > columns || window.height > rows)
      return false;
    window.top = below(key, word + 2, rows - window.height + 1);
    window.left = below(key, word + 3, columns - window.width + 1);
    return true;
  }

  // The largest window in the middle whose ratio is allowed.
  Window middle(const Tensor& image) const {
    const auto rows = static_cast<double>(image.shape(0)),
               columns = static_cast<double>(image.shape(1));
    const std::int64_t w = std::llround(std::min(columns, rows * max_ratio));
    const std::int64_t h = std::llround(std::min(rows, columns / min_ratio));
    const Window window{0, 0, std::clamp<std::int64_t>(h, 1, image.shape(0)),
                        std::clamp<std::int64_t>(w, 1, image.shape(1))};
    return {(image.shape(0) - window.height) / 2, (image.shape(1) - window.width) / 2,
            window.height, window.width};
  }

  Tensor cropped(const Tensor& image, const RandomKey& key) const {
    check_image("random_resized_crop", image);
    check_fits("random_resized_crop", image.shape(0), image.shape(1), 1, 1);
    Window window{};
    std::uint32_t attempt = 0;
    while (attempt < kTries && !draw(image, key, 4 * attempt, window)) ++attempt;
    if (attempt == kTries) window = middle(image);
    return crop_image(image, window.top, window.left, window.height, window.width);
  }
};

// How large an image is whose shorter side becomes `size`.
std::pair<std::int64_t, std::int64_t> short_size(const Tensor& image, std::int64_t size) {
  check_image("resize_short", image);
  const std::int64_t h = image.shape(0), w = image.shape(1), shorter = std::min(h, w);
  check_fits("resize_short", h, w, 1, 1);
  const auto scaled = [&](std::int64_t side) { return (side * size + shorter / 2) / shorter; };
  return {scaled(h), scaled(w)};
}

using Apply = std::function<Tensor(const Tensor&, const RandomKey&)>;

Transform with_mask(Transform transform, Apply apply_mask) {
  transform.apply_mask = std::move(apply_mask);
  return transform;
}

Tensor apply_all_masks(const std::vector<Transform>& transforms, Tensor value, RandomKey key) {
  for (const Transform& transform : transforms) {
    value = detail::apply_to_mask(transform, value, key);
    key.use += transform.uses;
  }
  return value;
}

// The jitter's range for a factor.
double draw_factor(const RandomKey& key, std::uint32_t k, double spread) {
  return uniform(key, k, std::max(0.0, 1.0 - spread), 1.0 + spread);
}

}  // namespace

Transform compose(std::vector<Transform> transforms) {
  Transform result;
  result.description = joined(transforms);
  bool whole_batches = true;
  for (const Transform& transform : transforms) {
    if (transform.apply_fields)
      throw InvalidArgument("compose: {} changes several fields; compose what it is made of",
                            transform.description);
    result.uses += transform.uses;
    whole_batches = whole_batches && transform.apply_batch != nullptr;
  }
  if (whole_batches)
    result.apply_batch = [transforms](const Tensor& values) {
      return apply_all_batch(transforms, values);
    };
  result.apply_mask = [transforms](const Tensor& value, const RandomKey& key) {
    return apply_all_masks(transforms, value, key);
  };
  result.apply = [list = std::move(transforms)](const Tensor& value, const RandomKey& key) {
    return apply_all(list, value, key);
  };
  return result;
}

Transform cast(DType dtype) {
  return {fmt::format("cast({})", name_of(dtype)), 0,
          [dtype](const Tensor& value, const RandomKey&) { return converted(value, dtype); },
          [dtype](const Tensor& values) { return converted(values, dtype); }};
}

Transform resize(std::int64_t height, std::int64_t width) {
  check_size("resize", height, width);
  return with_mask(
      {fmt::format("resize({}, {})", height, width), 0,
       [=](const Tensor& image, const RandomKey&) { return resize_image(image, height, width); }},
      [=](const Tensor& mask, const RandomKey&) { return resize_mask(mask, height, width); });
}

Transform resize_short(std::int64_t size) {
  check_positive("resize_short", "size", size);
  return with_mask({fmt::format("resize_short({})", size), 0,
                    [size](const Tensor& image, const RandomKey&) {
                      const auto [height, width] = short_size(image, size);
                      return resize_image(image, height, width);
                    }},
                   [size](const Tensor& mask, const RandomKey&) {
                     const auto [height, width] = short_size(mask, size);
                     return resize_mask(mask, height, width);
                   });
}

Transform center_crop(std::int64_t height, std::int64_t width) {
  check_size("center_crop", height, width);
  return {fmt::format("center_crop({}, {})", height, width), 0,
          [=](const Tensor& image, const RandomKey&) {
            check_image("center_crop", image);
            check_fits("center_crop", image.shape(0), image.shape(1), height, width);
            return crop_image(image, (image.shape(0) - height) / 2, (image.shape(1) - width) / 2,
                              height, width);
          }};
}

Transform random_crop(std::int64_t height, std::int64_t width, std::int64_t pad,
                      std::vector<float> fill) {
  check_size("random_crop", height, width);
  if (pad < 0) throw InvalidArgument("random_crop: pad is {}, expected 0 or more", pad);
  for (const float value : fill) check_range("random_crop", "fill", value, 0.0, 255.0);
  const auto crop = [=](const Tensor& image, const RandomKey& key, std::span<const float> around) {
    check_image("random_crop", image);
    const std::int64_t rows = image.shape(0) + 2 * pad, columns = image.shape(1) + 2 * pad;
    check_fits("random_crop", rows, columns, height, width);
    return crop_image(image, below(key, 0, rows - height + 1) - pad,
                      below(key, 1, columns - width + 1) - pad, height, width, around);
  };
  const std::string told = fill.empty() ? "" : fmt::format(", fill=[{}]", fmt::join(fill, ", "));
  return with_mask(
      {fmt::format("random_crop({}, {}, pad={}{})", height, width, pad, told), 2,
       [=](const Tensor& image, const RandomKey& key) { return crop(image, key, fill); }},
      [=](const Tensor& mask, const RandomKey& key) { return crop(mask, key, {}); });
}

Transform random_resized_crop(std::int64_t height, std::int64_t width, double min_area,
                              double max_area, double min_ratio, double max_ratio) {
  const char* who = "random_resized_crop";
  check_size(who, height, width);
  check_range(who, "max_area", max_area, 0.0, 1.0);
  check_range(who, "min_area", min_area, 0.0, max_area);
  if (!(min_ratio > 0.0 && min_ratio <= max_ratio && std::isfinite(max_ratio)))
    throw InvalidArgument("{}: ratios are {} to {}, expected above 0 and in order", who, min_ratio,
                          max_ratio);
  const ResizedCrop crop{height, width, min_area, max_area, min_ratio, max_ratio};
  return with_mask({fmt::format("{}({}, {}, area=[{}, {}], ratio=[{}, {}])", who, height, width,
                                min_area, max_area, min_ratio, max_ratio),
                    ResizedCrop::kUses,
                    [crop](const Tensor& image, const RandomKey& key) {
                      return resize_image(crop.cropped(image, key), crop.height, crop.width);
                    }},
                   [crop](const Tensor& mask, const RandomKey& key) {
                     return resize_mask(crop.cropped(mask, key), crop.height, crop.width);
                   });
}

Transform random_flip_left_right(double p) {
  return random_flip("random_flip_left_right", p, flip_left_right);
}

Transform random_flip_top_bottom(double p) {
  return random_flip("random_flip_top_bottom", p, flip_top_bottom);
}

Transform random_rotation(double degrees) {
  check_range("random_rotation", "degrees", degrees, 0.0, 360.0);
  return with_mask({fmt::format("random_rotation({})", degrees), 1,
                    [degrees](const Tensor& image, const RandomKey& key) {
                      return rotate_image(image, uniform(key, 0, -degrees, degrees));
                    }},
                   [degrees](const Tensor& mask, const RandomKey& key) {
                     return rotate_mask(mask, uniform(key, 0, -degrees, degrees));
                   });
}

Transform random_color_jitter(double brightness, double contrast, double saturation, double hue) {
  const char* who = "random_color_jitter";
  check_range(who, "brightness", brightness, 0.0, 1e6);
  check_range(who, "contrast", contrast, 0.0, 1e6);
  check_range(who, "saturation", saturation, 0.0, 1e6);
  check_range(who, "hue", hue, 0.0, 0.5);
  return with_mask(
      {fmt::format("{}({}, {}, {}, hue={})", who, brightness, contrast, saturation, hue), 4,
       [=](const Tensor& image, const RandomKey& key) {
         return change_color(image, {draw_factor(key, 0, brightness), draw_factor(key, 1, contrast),
                                     draw_factor(key, 2, saturation), uniform(key, 3, -hue, hue)});
       }},
      detail::leave_mask);
}

}  // namespace lockstep::data
