// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstring>
#include <vector>

#include "lockstep/data/detail/pixels.h"
#include "lockstep/data/image.h"

namespace lockstep::data {

namespace {

using detail::to_pixel;

// What one output row or column is made of: two input lines and the second one's weight.
struct Blend {
  std::int64_t first, second;
  float weight;
};

// Output centre i + 0.5 stands on the input at (i + 0.5) * in / out; outside, the edge's value.
std::vector<Blend> blends(std::int64_t in, std::int64_t out) {
  std::vector<Blend> result(static_cast<std::size_t>(out));
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  for (std::int64_t i = 0; i < out; ++i) {
    const double at =
        std::clamp((static_cast<double>(i) + 0.5) * scale - 0.5, 0.0, static_cast<double>(in - 1));
    const auto first = static_cast<std::int64_t>(at);
    result[static_cast<std::size_t>(i)] = {first, std::min(first + 1, in - 1),
                                           static_cast<float>(at - static_cast<double>(first))};
  }
  return result;
}

float mix(float a, float b, float weight) { return a + (b - a) * weight; }

// Rows first, into a line of floats; then columns.
template <class T>
class Resizer {
 public:
  Resizer(const Tensor& from, const Tensor& to)
      : from_(from.data<T>()),
        to_(to.data<T>()),
        line_size_(from.shape(1) * from.shape(2)),
        channels_(from.shape(2)),
        rows_(blends(from.shape(0), to.shape(0))),
        columns_(blends(from.shape(1), to.shape(1))),
        line_(static_cast<std::size_t>(line_size_)) {}

  void run() {
    for (const Blend& row : rows_) {
      mix_rows(row);
      mix_columns();
    }
  }

 private:
  void mix_rows(const Blend& row) {
    const T* first = from_ + row.first * line_size_;
    const T* second = from_ + row.second * line_size_;
    for (std::size_t i = 0; i < line_.size(); ++i)
      line_[i] = mix(static_cast<float>(first[i]), static_cast<float>(second[i]), row.weight);
  }
  void mix_columns() {
    for (const Blend& column : columns_) {
      const float* first = line_.data() + column.first * channels_;
      const float* second = line_.data() + column.second * channels_;
      for (std::int64_t c = 0; c < channels_; ++c)
        *to_++ = to_pixel<T>(mix(first[c], second[c], column.weight));
    }
  }

  const T* from_;
  T* to_;
  std::int64_t line_size_, channels_;
  std::vector<Blend> rows_, columns_;
  std::vector<float> line_;
};

// std::floor is a call on the oldest machines that the library is built for.
std::int64_t whole_below(double value) {
  const auto whole = static_cast<std::int64_t>(value);
  return whole - (value < static_cast<double>(whole) ? 1 : 0);
}

// Reads between pixels; zero outside.
template <class T>
class Reader {
 public:
  explicit Reader(const Tensor& image)
      : data_(image.data<T>()),
        height_(image.shape(0)),
        width_(image.shape(1)),
        channels_(image.shape(2)) {}

  void read(double y, double x, T* to) const {
    const std::int64_t row = whole_below(y), column = whole_below(x);
    const auto dy = static_cast<float>(y - static_cast<double>(row));
    const auto dx = static_cast<float>(x - static_cast<double>(column));
    const bool inside = row >= 0 && column >= 0 && row + 1 < height_ && column + 1 < width_;
    for (std::int64_t c = 0; c < channels_; ++c)
      to[c] = inside ? mixed<true>(row, column, c, dy, dx) : mixed<false>(row, column, c, dy, dx);
  }

 private:
  template <bool kInside>
  T mixed(std::int64_t row, std::int64_t column, std::int64_t c, float dy, float dx) const {
    const float top = mix(at<kInside>(row, column, c), at<kInside>(row, column + 1, c), dx);
    const float below =
        mix(at<kInside>(row + 1, column, c), at<kInside>(row + 1, column + 1, c), dx);
    return to_pixel<T>(mix(top, below, dy));
  }
  template <bool kInside>
  float at(std::int64_t y, std::int64_t x, std::int64_t c) const {
    const bool inside = kInside || (y >= 0 && y < height_ && x >= 0 && x < width_);
    return inside ? static_cast<float>(data_[(y * width_ + x) * channels_ + c]) : 0.0f;
  }

  const T* data_;
  std::int64_t height_, width_, channels_;
};

// Output pixel (y, x) comes from where the opposite turn about the centre takes it.
template <class T>
void rotate(const Tensor& from, const Tensor& to, double cosine, double sine) {
  const Reader<T> reader(from);
  const std::int64_t height = from.shape(0), width = from.shape(1), channels = from.shape(2);
  const double middle_y = static_cast<double>(height - 1) / 2;
  const double middle_x = static_cast<double>(width - 1) / 2;
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t x = 0; x < width; ++x) {
      const double v = static_cast<double>(y) - middle_y, u = static_cast<double>(x) - middle_x;
      reader.read(middle_y + u * sine + v * cosine, middle_x + u * cosine - v * sine,
                  to.data<T>() + (y * width + x) * channels);
    }
}

// Quarter turns are exact, where the library's cosine of 90 degrees is not quite 0.
std::pair<double, double> turn(double degrees) {
  const double quarters = degrees / 90.0;
  if (quarters == std::floor(quarters)) {
    constexpr double kCosines[] = {1.0, 0.0, -1.0, 0.0};
    const auto q = static_cast<std::int64_t>(quarters);
    return {kCosines[q & 3], kCosines[(q + 3) & 3]};
  }
  const double radians = degrees * (3.14159265358979323846 / 180.0);
  return {std::cos(radians), std::sin(radians)};
}

// One pixel; `bytes` is its size.
void copy_pixel(const Tensor& from, std::int64_t at, const Tensor& to, std::int64_t place,
                std::size_t bytes) {
  std::memcpy(to.raw() + static_cast<std::size_t>(place) * bytes,
              from.raw() + static_cast<std::size_t>(at) * bytes, bytes);
}

std::size_t bytes_of_pixel(const Tensor& image) {
  return static_cast<std::size_t>(image.shape(2)) * item_size(image.dtype());
}

void check_resize(const char* who, const Tensor& image, std::int64_t height, std::int64_t width) {
  check_image(who, image);
  if (image.shape(0) < 1 || image.shape(1) < 1 || height < 1 || width < 1)
    throw InvalidArgument("{}: cannot make {} x {} of an image of {} x {}", who, height, width,
                          image.shape(0), image.shape(1));
}

void check_degrees(double degrees) {
  if (!(std::abs(degrees) <= 1e6))
    throw InvalidArgument("rotate: degrees is {}, expected -1e6 to 1e6", degrees);
}

}  // namespace

// The source pixel whose area has the centre of the new one.
Tensor resize_mask(const Tensor& mask, std::int64_t height, std::int64_t width) {
  check_resize("resize", mask, height, width);
  if (mask.shape(0) == height && mask.shape(1) == width) return mask;
  const Tensor source = mask.contiguous();
  Tensor result = Tensor::empty({height, width, mask.shape(2)}, mask.dtype());
  const std::size_t bytes = bytes_of_pixel(mask);
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t x = 0; x < width; ++x) {
      const std::int64_t row = (2 * y + 1) * mask.shape(0) / (2 * height);
      const std::int64_t column = (2 * x + 1) * mask.shape(1) / (2 * width);
      copy_pixel(source, row * mask.shape(1) + column, result, y * width + x, bytes);
    }
  return result;
}

Tensor rotate_mask(const Tensor& mask, double degrees) {
  check_image("rotate", mask);
  check_degrees(degrees);
  const auto [cosine, sine] = turn(degrees);
  const Tensor source = mask.contiguous();
  Tensor result = Tensor::zeros(mask.shape(), mask.dtype());
  const std::int64_t height = mask.shape(0), width = mask.shape(1);
  const double middle_y = static_cast<double>(height - 1) / 2;
  const double middle_x = static_cast<double>(width - 1) / 2;
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t x = 0; x < width; ++x) {
      const double v = static_cast<double>(y) - middle_y, u = static_cast<double>(x) - middle_x;
      const std::int64_t row = whole_below(middle_y + u * sine + v * cosine + 0.5);
      const std::int64_t column = whole_below(middle_x + u * cosine - v * sine + 0.5);
      if (row >= 0 && row < height && column >= 0 && column < width)
        copy_pixel(source, row * width + column, result, y * width + x, bytes_of_pixel(mask));
    }
  return result;
}

Tensor resize_image(const Tensor& image, std::int64_t height, std::int64_t width) {
  check_resize("resize", image, height, width);
  if (image.shape(0) == height && image.shape(1) == width) return image;
  const Tensor source = image.contiguous();
  Tensor result = Tensor::empty({height, width, image.shape(2)}, image.dtype());
  detail::visit_pixels(
      image, [&](auto tag) { Resizer<typename decltype(tag)::type>(source, result).run(); });
  return result;
}

Tensor rotate_image(const Tensor& image, double degrees) {
  check_image("rotate", image);
  check_degrees(degrees);
  const auto [cosine, sine] = turn(degrees);
  const Tensor source = image.contiguous();
  Tensor result = Tensor::empty(image.shape(), image.dtype());
  detail::visit_pixels(image, [&, c = cosine, s = sine](auto tag) {
    rotate<typename decltype(tag)::type>(source, result, c, s);
  });
  return result;
}

}  // namespace lockstep::data
