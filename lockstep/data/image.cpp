// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/image.h"

#include <algorithm>
#include <cstring>

namespace lockstep::data {

namespace {

std::int64_t pixel_bytes(const Tensor& image) {
  return image.shape(2) * static_cast<std::int64_t>(item_size(image.dtype()));
}

// The part of 0..size that a window from `first` of `count` covers.
struct Overlap {
  Overlap(std::int64_t first, std::int64_t count, std::int64_t size)
      : begin(std::clamp<std::int64_t>(first, 0, size)),
        end(std::clamp<std::int64_t>(first + count, begin, size)) {}
  std::int64_t begin, end;
};

// A pixel's size as a constant turns its copy into one or two moves.
template <std::int64_t kBytes>
void reverse_row(const std::byte* from, std::byte* to, std::int64_t width, std::int64_t) {
  for (std::int64_t x = 0; x < width; ++x)
    std::memcpy(to + x * kBytes, from + (width - 1 - x) * kBytes, kBytes);
}

void reverse_any_row(const std::byte* from, std::byte* to, std::int64_t width, std::int64_t bytes) {
  for (std::int64_t x = 0; x < width; ++x)
    std::memcpy(to + x * bytes, from + (width - 1 - x) * bytes, static_cast<std::size_t>(bytes));
}

using RowReverse = void (*)(const std::byte*, std::byte*, std::int64_t, std::int64_t);

RowReverse row_reverse(std::int64_t bytes) {
  switch (bytes) {
    case 1: return reverse_row<1>;
    case 3: return reverse_row<3>;
    case 4: return reverse_row<4>;
    case 12: return reverse_row<12>;
    default: return reverse_any_row;
  }
}

template <class T>
void fill_pixels(const Tensor& image, std::span<const float> fill) {
  const auto channels = static_cast<std::size_t>(image.shape(2));
  T* pixels = image.data<T>();
  for (std::int64_t i = 0; i < image.numel(); ++i) {
    const float value = fill[fill.size() == 1 ? 0 : static_cast<std::size_t>(i) % channels];
    pixels[i] = std::is_same_v<T, float> ? static_cast<T>(value) : static_cast<T>(value + 0.5F);
  }
}

Tensor filled_image(const Shape& shape, DType dtype, std::span<const float> fill) {
  if (fill.empty()) return Tensor::zeros(shape, dtype);
  if (fill.size() != 1 && std::ssize(fill) != shape[2])
    throw InvalidArgument("crop: {} values to fill with, the image has {} channels", fill.size(),
                          shape[2]);
  Tensor image = Tensor::empty(shape, dtype);
  dtype == DType::uint8 ? fill_pixels<std::uint8_t>(image, fill) : fill_pixels<float>(image, fill);
  return image;
}

}  // namespace

void check_image(const char* who, const Tensor& image) {
  const DType dtype = image.dtype();
  if (image.rank() != 3 || (dtype != DType::uint8 && dtype != DType::float32))
    throw InvalidArgument("{}: got {}, expected an image: uint8 or float32 [H, W, C]", who,
                          image.info().str());
}

Tensor crop_image(const Tensor& image, std::int64_t top, std::int64_t left, std::int64_t height,
                  std::int64_t width, std::span<const float> fill) {
  check_image("crop", image);
  const Tensor source = image.contiguous();
  const Overlap rows(top, height, image.shape(0)), columns(left, width, image.shape(1));
  const bool inside = rows.end - rows.begin == height && columns.end - columns.begin == width;
  const Shape shape{height, width, image.shape(2)};
  Tensor result =
      inside ? Tensor::empty(shape, image.dtype()) : filled_image(shape, image.dtype(), fill);
  const std::int64_t bytes = pixel_bytes(image);
  const auto count = static_cast<std::size_t>((columns.end - columns.begin) * bytes);
  if (count == 0) return result;
  for (std::int64_t y = rows.begin; y < rows.end; ++y)
    std::memcpy(result.raw() + ((y - top) * width + columns.begin - left) * bytes,
                source.raw() + (y * image.shape(1) + columns.begin) * bytes, count);
  return result;
}

Tensor flip_left_right(const Tensor& image) {
  check_image("flip", image);
  const Tensor source = image.contiguous();
  Tensor result = Tensor::empty(image.shape(), image.dtype());
  const std::int64_t bytes = pixel_bytes(image), width = image.shape(1);
  const RowReverse reverse = row_reverse(bytes);
  for (std::int64_t y = 0; y < image.shape(0); ++y)
    reverse(source.raw() + y * width * bytes, result.raw() + y * width * bytes, width, bytes);
  return result;
}

Tensor flip_top_bottom(const Tensor& image) {
  check_image("flip", image);
  const Tensor source = image.contiguous();
  Tensor result = Tensor::empty(image.shape(), image.dtype());
  const std::int64_t height = image.shape(0), bytes = pixel_bytes(image) * image.shape(1);
  if (bytes == 0) return result;
  for (std::int64_t y = 0; y < height; ++y)
    std::memcpy(result.raw() + y * bytes, source.raw() + (height - 1 - y) * bytes,
                static_cast<std::size_t>(bytes));
  return result;
}

}  // namespace lockstep::data
