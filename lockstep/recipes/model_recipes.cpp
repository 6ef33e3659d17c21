// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recipes/model_recipes.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "lockstep/base/error.h"
#include "lockstep/nn/models/models.h"
#include "lockstep/recipes/detail/images.h"

namespace lockstep::recipes {
namespace {

constexpr std::int64_t kSmallestSide = 32;  // five halvings leave a pixel
constexpr std::int64_t kLookedAt = 64;      // images of a set

bool is_vgg(const std::string& name) { return name.starts_with("vgg"); }

// A plain VGG diverges at the rate that nets with batch norm like.
Learning learning_of(const std::string& name) {
  const bool gentle = is_vgg(name) && !name.ends_with("_bn");
  return momentum(gentle ? 0.01 : 0.05, 1e-4, 0.05);
}

Recipe recipe_of(const nn::models::ModelInfo& info) {
  Recipe recipe;
  recipe.name = info.name;
  recipe.summary = info.about;
  recipe.dataset = "your images";
  recipe.classes = 10;
  recipe.global_batch = 64;
  recipe.has_batch_norm = true;
  recipe.from_data = true;
  recipe.epochs = 10;
  recipe.bench_batch = 32;
  recipe.learning = learning_of(info.name);
  recipe.model = [name = info.name](double dropout, std::int64_t classes) {
    return nn::models::make_model(name, {.classes = classes, .dropout = dropout});
  };
  recipe.dropout = is_vgg(info.name) ? 0.5 : 0.0;
  recipe.own_image = info.sample.shape;
  return with_image_shape(recipe, info.sample.shape);
}

data::Transform normalised(std::int64_t channels) {
  if (channels == 1) return data::to_tensor({0.45F}, {0.25F});
  return data::to_tensor({0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F});
}

// Grey images are digits and letters, which a mirror makes others of.
data::Transform moved(const Shape& image) {
  std::vector<data::Transform> steps{
      data::random_crop(image[1], image[2], std::max(image[1], image[2]) / 8)};
  if (image[0] != 1) steps.push_back(data::random_flip_left_right());
  steps.push_back(normalised(image[0]));
  return data::compose(steps);
}

struct Sizes {
  std::vector<std::int64_t> heights, widths, shorter;
  bool coloured = false;

  void add(const Shape& image) {
    heights.push_back(image[0]);
    widths.push_back(image[1]);
    shorter.push_back(std::min(image[0], image[1]));
    coloured |= image[2] != 1;
  }
  bool are_one() const {
    const auto same = [](const std::vector<std::int64_t>& all) {
      return std::all_of(all.begin(), all.end(), [&](auto size) { return size == all.front(); });
    };
    return same(heights) && same(widths);
  }
};

// One that does not decode is whoever reads it's to report.
Sizes sizes_of(const data::Dataset& set) {
  Sizes sizes;
  const std::int64_t count = std::min(kLookedAt, set.size());
  for (std::int64_t i = 0; i < count; ++i) {
    try {
      sizes.add(set.sample(set.size() * i / count).front().shape());
    } catch (const Corrupt&) {
      continue;
    }
  }
  return sizes;
}

std::int64_t median(std::vector<std::int64_t> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

const std::vector<Recipe>& model_recipes() {
  static const std::vector<Recipe> all = [] {
    std::vector<Recipe> recipes;
    for (const nn::models::ModelInfo& info : nn::models::model_list())
      if (info.sample.shape.rank() == 3) recipes.push_back(recipe_of(info));
    return recipes;
  }();
  return all;
}

std::vector<std::string> model_recipe_names() {
  std::vector<std::string> names;
  for (const Recipe& recipe : model_recipes()) names.push_back(recipe.name);
  return names;
}

Recipe with_image_shape(Recipe recipe, const Shape& image) {
  recipe.sample_shape = image;
  recipe.train_transform = [image] { return moved(image); };
  recipe.test_transform = [image] { return normalised(image[0]); };
  return recipe;
}

Shape choose_image_shape(const Recipe& recipe, const data::Dataset& set, std::int64_t size) {
  const Sizes sizes = sizes_of(set);
  const std::int64_t own = recipe.own_image[1];
  const std::int64_t least = std::min(kSmallestSide, own);
  if (sizes.heights.empty()) return recipe.own_image;
  const std::int64_t channels = sizes.coloured ? 3 : 1;
  if (size > 0) return {channels, size, size};
  const std::int64_t height = sizes.heights.front(), width = sizes.widths.front();
  if (sizes.are_one() && std::min(height, width) >= least && std::max(height, width) <= own)
    return {channels, height, width};
  const std::int64_t side = std::clamp(median(sizes.shorter), least, own);
  return {channels, side, side};
}

Shape generated_image_shape(const Recipe& recipe, std::int64_t size) {
  const std::int64_t side = size > 0 ? size : std::min(kSmallestSide, recipe.own_image[1]);
  return {recipe.own_image[0], side, side};
}

std::string text_of_shape(const Shape& image) {
  return fmt::format("{}x{}x{}", image[0], image[1], image[2]);
}

Shape shape_from_text(const std::string& text) {
  std::istringstream words(text);
  std::int64_t channels = 0, height = 0, width = 0;
  char first = 0, second = 0;
  words >> channels >> first >> height >> second >> width;
  if (!words || words.peek() != EOF || first != 'x' || second != 'x' ||
      (channels != 1 && channels != 3) || height < 1 || width < 1)
    throw InvalidArgument("image: '{}', expected channels, height and width as 3x32x32", text);
  return {channels, height, width};
}

}  // namespace lockstep::recipes
