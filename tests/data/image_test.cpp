// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/image.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/data/images.h"
#include "tests/message.h"

namespace lockstep::data {
namespace {

using lockstep::testing::message_of;
using testing_images::random_image;
using testing_images::value_at;

const DType kPixelTypes[] = {DType::uint8, DType::float32};

// What stands at (y, x): zero outside.
double at_or_zero(const Tensor& image, std::int64_t y, std::int64_t x, std::int64_t c) {
  const bool inside = y >= 0 && x >= 0 && y < image.shape(0) && x < image.shape(1);
  return inside ? value_at(image, y, x, c) : 0.0;
}

// Compares every pixel of `image` with expected(y, x, c).
template <class F>
void expect_pixels(const Tensor& image, double tolerance, F expected) {
  for (std::int64_t y = 0; y < image.shape(0); ++y)
    for (std::int64_t x = 0; x < image.shape(1); ++x)
      for (std::int64_t c = 0; c < image.shape(2); ++c)
        ASSERT_NEAR(value_at(image, y, x, c), expected(y, x, c), tolerance)
            << "at " << y << ", " << x << ", " << c;
}

TEST(Image, ACropIsAWindowWithZerosOutside) {
  for (DType dtype : kPixelTypes)
    for (std::int64_t channels : {1, 3, 5})
      for (auto [top, left, h, w] : std::vector<std::array<std::int64_t, 4>>{{1, 2, 3, 4},
                                                                             {0, 0, 6, 7},
                                                                             {-2, -3, 6, 7},
                                                                             {4, 5, 6, 7},
                                                                             {-9, 0, 3, 3},
                                                                             {1, 40, 2, 2}}) {
        const Tensor image = random_image({6, 7, channels}, dtype);
        const Tensor crop = crop_image(image, top, left, h, w);
        ASSERT_EQ(crop.shape(), (Shape{h, w, channels}));
        ASSERT_EQ(crop.dtype(), dtype);
        expect_pixels(crop, 0.0, [&, top = top, left = left](auto y, auto x, auto c) {
          return at_or_zero(image, y + top, x + left, c);
        });
      }
}

TEST(Image, FlipsMirrorEveryPixel) {
  for (DType dtype : kPixelTypes)
    for (std::int64_t channels : {1, 2, 3, 4, 5}) {
      const Tensor image = random_image({4, 7, channels}, dtype);
      expect_pixels(flip_left_right(image), 0.0,
                    [&](auto y, auto x, auto c) { return value_at(image, y, 6 - x, c); });
      expect_pixels(flip_top_bottom(image), 0.0,
                    [&](auto y, auto x, auto c) { return value_at(image, 3 - y, x, c); });
    }
}

TEST(Image, AWindowOnALargerArrayIsAnImageToo) {
  const Tensor large = random_image({8, 9, 3}, DType::uint8);
  const Tensor window = large.window({4, 5, 3}, large.strides(), 0);
  expect_pixels(flip_left_right(window), 0.0,
                [&](auto y, auto x, auto c) { return value_at(large, y, 4 - x, c); });
}

// Straight from the definition, in double.
double bilinear(const Tensor& image, double y, double x, std::int64_t c) {
  y = std::clamp(y, 0.0, static_cast<double>(image.shape(0) - 1));
  x = std::clamp(x, 0.0, static_cast<double>(image.shape(1) - 1));
  double sum = 0.0;
  for (std::int64_t i = 0; i < image.shape(0); ++i)
    for (std::int64_t j = 0; j < image.shape(1); ++j)
      sum += value_at(image, i, j, c) * std::max(0.0, 1.0 - std::abs(y - static_cast<double>(i))) *
             std::max(0.0, 1.0 - std::abs(x - static_cast<double>(j)));
  return sum;
}

TEST(Image, ResizeIsBilinearBetweenPixelCentres) {
  for (DType dtype : kPixelTypes)
    for (auto [h, w] :
         std::vector<std::array<std::int64_t, 2>>{{3, 5}, {12, 10}, {1, 1}, {6, 20}}) {
      const Tensor image = random_image({6, 8, 3}, dtype);
      const double sy = 6.0 / static_cast<double>(h), sx = 8.0 / static_cast<double>(w);
      const double tolerance = dtype == DType::uint8 ? 0.5001 : 1e-3;
      expect_pixels(resize_image(image, h, w), tolerance, [&](auto y, auto x, auto c) {
        return bilinear(image, (static_cast<double>(y) + 0.5) * sy - 0.5,
                        (static_cast<double>(x) + 0.5) * sx - 0.5, c);
      });
    }
}

TEST(Image, ResizeToItsOwnSizeChangesNothing) {
  const Tensor image = random_image({5, 7, 3}, DType::uint8);
  EXPECT_EQ(resize_image(image, 5, 7).to_vector<int>(), image.to_vector<int>());
}

TEST(Image, RotationBy0IsTheImageAndBy90ItsQuarterTurn) {
  for (DType dtype : kPixelTypes) {
    const Tensor image = random_image({6, 6, 3}, dtype);
    expect_pixels(rotate_image(image, 0), 0.0,
                  [&](auto y, auto x, auto c) { return value_at(image, y, x, c); });
    expect_pixels(rotate_image(image, 90), 0.0,
                  [&](auto y, auto x, auto c) { return value_at(image, x, 5 - y, c); });
    expect_pixels(rotate_image(image, -90), 0.0,
                  [&](auto y, auto x, auto c) { return value_at(image, 5 - x, y, c); });
    expect_pixels(rotate_image(image, 180), 0.0,
                  [&](auto y, auto x, auto c) { return value_at(image, 5 - y, 5 - x, c); });
  }
}

TEST(Image, RotationIsBilinearWithZerosOutside) {
  const Tensor image = random_image({7, 9, 2}, DType::float32);
  for (double degrees : {1.0, 30.0, -75.0, 200.0}) {
    const double angle = degrees * std::acos(-1.0) / 180;
    expect_pixels(rotate_image(image, degrees), 1e-2, [&](auto y, auto x, auto c) {
      const double v = static_cast<double>(y) - 3, u = static_cast<double>(x) - 4;
      const double from_y = 3 + u * std::sin(angle) + v * std::cos(angle);
      const double from_x = 4 + u * std::cos(angle) - v * std::sin(angle);
      double sum = 0.0;
      for (std::int64_t i = 0; i < 7; ++i)
        for (std::int64_t j = 0; j < 9; ++j)
          sum += value_at(image, i, j, c) *
                 std::max(0.0, 1.0 - std::abs(from_y - static_cast<double>(i))) *
                 std::max(0.0, 1.0 - std::abs(from_x - static_cast<double>(j)));
      return sum;
    });
  }
}

TEST(Image, RotationBetweenQuartersLeavesTheCentreAndEmptiesTheCorners) {
  const Tensor image = Tensor::full({9, 9, 1}, 100, DType::uint8);
  const Tensor turned = rotate_image(image, 45);
  EXPECT_EQ(value_at(turned, 4, 4, 0), 100);
  EXPECT_EQ(value_at(turned, 0, 0, 0), 0);
  EXPECT_EQ(value_at(turned, 8, 0, 0), 0);
}

TEST(Image, RotationByASmallAngleAndBackIsCloseToASmoothImage) {
  Tensor image = Tensor::empty({21, 21, 1});
  for (std::int64_t i = 0; i < 441; ++i)
    image.data<float>()[i] = static_cast<float>(3 * (i / 21) + 2 * (i % 21));
  const Tensor back = rotate_image(rotate_image(image, 20), -20);
  for (std::int64_t y = 7; y < 14; ++y)
    for (std::int64_t x = 7; x < 14; ++x)
      EXPECT_NEAR(value_at(back, y, x, 0), value_at(image, y, x, 0), 0.01);
}

TEST(Image, WhatIsNoImageIsRefused) {
  EXPECT_EQ(message_of([] {
              flip_left_right(Tensor::zeros({3, 4, 3}, DType::int64));
            }),
            "flip: got int64[3, 4, 3], expected an image: uint8 or float32 [H, W, C]");
  EXPECT_EQ(message_of([] {
              crop_image(Tensor::zeros({3, 4}), 0, 0, 1, 1);
            }),
            "crop: got float32[3, 4], expected an image: uint8 or float32 [H, W, C]");
  EXPECT_EQ(message_of([] {
              resize_image(Tensor::zeros({0, 4, 3}), 2, 2);
            }),
            "resize: cannot make 2 x 2 of an image of 0 x 4");
  EXPECT_EQ(message_of([] {
              rotate_image(Tensor::zeros({2, 4, 3}), NAN);
            }),
            "rotate: degrees is nan, expected -1e6 to 1e6");
}

}  // namespace
}  // namespace lockstep::data
