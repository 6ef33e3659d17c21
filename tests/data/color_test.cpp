// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "lockstep/data/image.h"
#include "tests/data/images.h"
#include "tests/message.h"

namespace lockstep::data {
namespace {

using lockstep::testing::message_of;
using testing_images::random_image;

std::vector<int> changed(std::vector<std::uint8_t> rgb, const ColorChange& change) {
  return change_color(Tensor::from(rgb, {1, static_cast<std::int64_t>(rgb.size()) / 3, 3}), change)
      .to_vector<int>();
}

TEST(Color, NoChangeGivesTheImageBack) {
  const Tensor image = random_image({5, 6, 3}, DType::uint8);
  EXPECT_EQ(change_color(image, {}).to_vector<int>(), image.to_vector<int>());
}

TEST(Color, BrightnessMultipliesAndStopsAtWhite) {
  EXPECT_EQ(changed({10, 100, 200}, {.brightness = 1.5}), (std::vector<int>{15, 150, 255}));
  EXPECT_EQ(changed({10, 100, 200}, {.brightness = 0.0}), (std::vector<int>{0, 0, 0}));
}

TEST(Color, ContrastIsTheDistanceFromTheMeanGrey) {
  EXPECT_EQ(changed({50, 50, 50, 150, 150, 150}, {.contrast = 0.5}),
            (std::vector<int>{75, 75, 75, 125, 125, 125}));
  EXPECT_EQ(changed({50, 50, 50, 150, 150, 150}, {.contrast = 0.0}),
            (std::vector<int>{100, 100, 100, 100, 100, 100}));
}

TEST(Color, WithoutSaturationAPixelIsItsOwnGrey) {
  EXPECT_EQ(changed({255, 0, 0, 0, 255, 0, 0, 0, 255}, {.saturation = 0.0}),
            (std::vector<int>{76, 76, 76, 150, 150, 150, 29, 29, 29}));
}

TEST(Color, GreyPixelsHaveNeitherSaturationNorHue) {
  EXPECT_EQ(changed({90, 90, 90}, {.saturation = 3.0, .hue = 0.3}), (std::vector<int>{90, 90, 90}));
}

TEST(Color, AThirdOfTheCircleTakesRedToGreenToBlue) {
  EXPECT_EQ(changed({200, 20, 20}, {.hue = 1.0 / 3}), (std::vector<int>{20, 200, 20}));
  EXPECT_EQ(changed({200, 20, 20}, {.hue = -1.0 / 3}), (std::vector<int>{20, 20, 200}));
  EXPECT_EQ(changed({20, 200, 20}, {.hue = 1.0 / 3}), (std::vector<int>{20, 20, 200}));
  EXPECT_EQ(changed({200, 20, 20}, {.hue = 0.5}), (std::vector<int>{20, 200, 200}));
}

// By the cases of the hexagon: in each sixth one channel is high, one low and one on its way.
std::array<double, 3> naive_turn(double r, double g, double b, double turn) {
  const double high = std::max({r, g, b}), low = std::min({r, g, b}), range = high - low;
  if (range == 0.0) return {r, g, b};
  double hue = high == r ? (g - b) / range : high == g ? 2 + (b - r) / range : 4 + (r - g) / range;
  hue = std::fmod(hue + 6 * turn + 12, 6.0);
  const double rising = low + range * (hue - std::floor(hue)), falling = high + low - rising;
  switch (static_cast<int>(hue)) {
    case 0: return {high, rising, low};
    case 1: return {falling, high, low};
    case 2: return {low, high, rising};
    case 3: return {low, falling, high};
    case 4: return {rising, low, high};
    default: return {high, low, falling};
  }
}

TEST(Color, HueTurnsAsTheHexagonSays) {
  const Tensor image = random_image({8, 8, 3}, DType::float32);
  const std::vector<float> before = image.to_vector<float>();
  for (double turn : {0.1, 0.4, 0.95, -0.3, -0.5}) {
    const auto after = change_color(image, {.hue = turn}).to_vector<float>();
    for (std::size_t i = 0; i < before.size(); i += 3) {
      const auto expected = naive_turn(before[i], before[i + 1], before[i + 2], turn);
      for (std::size_t c = 0; c < 3; ++c) EXPECT_NEAR(after[i + c], expected[c], 1e-2);
    }
  }
}

TEST(Color, AWholeTurnOfTheHueIsNone) {
  const Tensor image = random_image({8, 8, 3}, DType::uint8);
  EXPECT_EQ(change_color(image, {.hue = 1.0}).to_vector<int>(), image.to_vector<int>());
  EXPECT_EQ(change_color(image, {.hue = -1.0}).to_vector<int>(), image.to_vector<int>());
}

TEST(Color, FloatsAreTreatedAsBytesWithoutTheRounding) {
  const ColorChange change{1.2, 0.8, 1.3, 0.1};
  const auto bytes = change_color(random_image({8, 8, 3}, DType::uint8), change).to_vector<float>();
  const auto floats =
      change_color(random_image({8, 8, 3}, DType::float32), change).to_vector<float>();
  for (std::size_t i = 0; i < bytes.size(); ++i) EXPECT_NEAR(bytes[i], floats[i], 0.5001);
}

TEST(Color, OneChannelKeepsBrightnessAndContrastOnly) {
  const Tensor image = Tensor::from(std::vector<std::uint8_t>{50, 150}, {1, 2, 1});
  EXPECT_EQ(change_color(image, {1.0, 0.5, 9.0, 0.4}).to_vector<int>(),
            (std::vector<int>{75, 125}));
}

TEST(Color, OtherChannelsAreRefused) {
  EXPECT_EQ(message_of([] {
              change_color(Tensor::zeros({2, 2, 4}), {});
            }),
            "color: the image has 4 channels, expected 1 or 3");
}

}  // namespace
}  // namespace lockstep::data
