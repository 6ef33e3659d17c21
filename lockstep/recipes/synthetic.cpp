// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recipes/synthetic.h"

#include <algorithm>
#include <array>
#include <span>

#include "lockstep/recipes/rating_data.h"
#include "lockstep/tensor/philox.h"

namespace lockstep::recipes {
namespace {

constexpr std::uint64_t kSeed = 0x10C5;
constexpr std::int64_t kTrainSamples = 8192;
constexpr std::int64_t kTestSamples = 256;
constexpr std::int64_t kMostPixels = std::int64_t{1} << 28;  // of large images there are fewer

// The draws of one sample, by their place in it.
struct Draws {
  RandomKey key;
  std::uint32_t bits(std::int64_t place) const {
    return random_bits(key, static_cast<std::uint64_t>(place));
  }
  std::int64_t below(std::int64_t place, std::int64_t bound) const {
    return static_cast<std::int64_t>(
        (std::uint64_t{bits(place)} * static_cast<std::uint64_t>(bound)) >> 32);
  }
};

enum Use : std::uint32_t { kPattern, kNoise };

Draws draws_of(std::int64_t number, bool train, Use use) {
  return {{kSeed, static_cast<std::uint32_t>(number), train ? 0U : 1U, use}};
}

// A class's pattern: squares of 7 pixels, so that a crop that moves by a few shows the same one.
std::vector<std::uint8_t> pattern_of(std::int64_t label, const Shape& image) {
  const Draws draws = draws_of(label, true, kPattern);
  std::vector<std::uint8_t> pattern;
  for (std::int64_t row = 0; row < image[0]; ++row)
    for (std::int64_t column = 0; column < image[1]; ++column)
      pattern.insert(pattern.end(), static_cast<std::size_t>(image[2]),
                     draws.bits((row / 7) * 16 + column / 7) % 2 == 0 ? 64 : 192);
  return pattern;
}

// Sixteen pixels take their noise from one block of random bits.
void draw_image(std::span<const std::uint8_t> pattern, const RandomKey& key, std::uint8_t* out) {
  std::array<std::uint32_t, 4> words{};
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (i % 16 == 0) words = philox(key, static_cast<std::uint32_t>(i / 16));
    const int noise = static_cast<int>((words[i % 4] >> (8 * (i % 16 / 4))) & 0xFF) - 128;
    out[i] = static_cast<std::uint8_t>(std::clamp(pattern[i] + noise, 0, 255));
  }
}

data::Fields draw_images(const Recipe& recipe, std::int64_t count, bool train) {
  const Shape& s = recipe.sample_shape;
  const Shape image{s[1], s[2], s[0]};  // as files have them; to_tensor makes [C, H, W]
  const Tensor images = Tensor::empty({count, image[0], image[1], image[2]}, DType::uint8);
  const Tensor labels = Tensor::empty({count}, DType::int64);
  std::vector<std::vector<std::uint8_t>> patterns;
  for (std::int64_t c = 0; c < recipe.classes; ++c) patterns.push_back(pattern_of(c, image));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t label = i % recipe.classes;
    labels.data<std::int64_t>()[i] = label;
    draw_image(patterns[static_cast<std::size_t>(label)], draws_of(i, train, kNoise).key,
               images.data<std::uint8_t>() + i * image.numel());
  }
  return {images, labels};
}

// A quarter of the words comes from the class's own part of the vocabulary.
data::Fields draw_texts(const Recipe& recipe, std::int64_t count, bool train) {
  const std::int64_t length = recipe.sample_shape[0], part = recipe.input_range / recipe.classes;
  const Tensor tokens = Tensor::empty({count, length}, DType::int64);
  const Tensor labels = Tensor::empty({count}, DType::int64);
  for (std::int64_t i = 0; i < count; ++i) {
    const Draws draws = draws_of(i, train, kNoise);
    const std::int64_t label = i % recipe.classes;
    labels.data<std::int64_t>()[i] = label;
    for (std::int64_t t = 0; t < length; ++t) {
      const bool own = draws.bits(2 * t) % 4 == 0;
      tokens.data<std::int64_t>()[i * length + t] =
          own ? label * part + draws.below(2 * t + 1, part)
              : draws.below(2 * t + 1, recipe.input_range);
    }
  }
  return {tokens, labels};
}

// Three characters of four are a fixed function of the one before.
data::Fields draw_characters(const Recipe& recipe, std::int64_t count, bool train) {
  const std::int64_t length = recipe.sample_shape[0], range = recipe.input_range;
  const Tensor inputs = Tensor::empty({count, length}, DType::int64);
  const Tensor labels = Tensor::empty({count, length}, DType::int64);
  for (std::int64_t i = 0; i < count; ++i) {
    const Draws draws = draws_of(i, train, kNoise);
    std::int64_t now = draws.below(0, range);
    for (std::int64_t t = 0; t < length; ++t) {
      inputs.data<std::int64_t>()[i * length + t] = now;
      const bool free = draws.bits(2 * t + 1) % 4 == 0;
      now = free ? draws.below(2 * t + 2, range) : (5 * now + 7) % range;
      labels.data<std::int64_t>()[i * length + t] = now;
    }
  }
  return {inputs, labels};
}

data::Fields draw(const Recipe& recipe, std::int64_t count, bool train) {
  switch (recipe.task) {
    case Task::images: return draw_images(recipe, count, train);
    case Task::texts: return draw_texts(recipe, count, train);
    case Task::characters: return draw_characters(recipe, count, train);
    case Task::ratings:
    case Task::clicks: break;  // recipes/synthetic_ratings.h
  }
  return {};
}

std::vector<std::string> class_numbers(const Recipe& recipe) {
  std::vector<std::string> names;
  if (recipe.task == Task::characters) return names;
  for (std::int64_t i = 0; i < recipe.classes; ++i) names.push_back(std::to_string(i));
  return names;
}

}  // namespace

data::DatasetPtr synthetic_data(const Recipe& recipe, bool train) {
  if (recipe.is_recommender()) {
    const RecipeData data = rating_data(recipe, {});
    return train ? data.train : data.test;
  }
  const std::int64_t most = std::max(kTestSamples, kMostPixels / recipe.sample_shape.numel());
  const std::int64_t count = train ? std::min(kTrainSamples, most) : kTestSamples;
  return std::make_shared<data::ArrayDataset>(draw(recipe, count, train), class_numbers(recipe));
}

}  // namespace lockstep::recipes
