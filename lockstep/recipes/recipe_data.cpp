// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recipes/recipe_data.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/sha256.h"
#include "lockstep/data/standard_sets.h"
#include "lockstep/data/text/sequences.h"
#include "lockstep/data/text_folder.h"
#include "lockstep/recipes/detail/images.h"
#include "lockstep/recipes/held_out.h"
#include "lockstep/recipes/image_fit.h"
#include "lockstep/recipes/model_recipes.h"
#include "lockstep/recipes/rating_data.h"
#include "lockstep/recipes/synthetic.h"

namespace lockstep::recipes {
namespace {

namespace fs = std::filesystem;

bool has_file_like(const std::string& folder, const std::string& begin) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.path().filename().string().starts_with(begin)) return true;
  return false;
}

bool is_image(const fs::path& path) {
  const std::string end = path.extension().string();
  return end == ".png" || end == ".jpg" || end == ".jpeg";
}

// A folder of images in it, for a class.
bool has_class_folder(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (!entry.is_directory(error)) continue;
    for (const auto& file : fs::directory_iterator(entry.path(), error))
      if (is_image(file.path())) return true;
  }
  return false;
}

// The files that the recipe, or any recipe where it is a library model's, knows the folder by.
ImageFiles find_files(const Recipe& recipe, const std::string& folder) {
  const std::vector<ImageFiles> known = recipe.from_data
                                            ? std::vector{idx_files(data::mnist), cifar_files()}
                                            : std::vector{recipe.files};
  std::string names;
  for (const ImageFiles& files : known) {
    if (has_file_like(folder, files.begin)) return files;
    names += (names.empty() ? "" : ", ") + files.names;
  }
  throw NotFound("{}: has neither images of your own (train/CLASS/*.png) nor {}'s files ({})",
                 folder, recipe.from_data ? "MNIST's or CIFAR-10" : recipe.dataset, names);
}

struct ImageSets {
  data::DatasetPtr train, test;
  bool is_folder = false;  // of files that have any size
  bool is_whole = false;   // training and test samples are not told apart: `train` has all
};

data::DatasetPtr open_folder(const DataSource& source, const std::string& folder, bool train) {
  return open_image_folder(folder,
                           {.image = {.max_pixels = source.max_pixels},
                            .skip_bad = source.skip_bad || (!train && source.skip_bad_tests),
                            .allow_empty = !train},
                           source.warn);
}

// One's own images: a folder for each class, below train/ and test/ or right there.
ImageSets open_images(const Recipe& recipe, const DataSource& source) {
  const std::string& folder = source.place;
  if (fs::is_directory(folder + "/train"))
    return {open_folder(source, folder + "/train", true),
            open_folder(source, folder + "/test", false), true, false};
  if (has_class_folder(folder)) return {open_folder(source, folder, true), {}, true, true};
  const ImageFiles files = find_files(recipe, folder);
  return {files.open(folder, true, source.max_inflated),
          files.open(folder, false, source.max_inflated), false, false};
}

// Files one brings along have any size; the net has one.
void check_images(const Recipe& recipe, const std::string& folder, const data::Dataset& set) {
  if (set.size() == 0) throw InvalidArgument("{}: has no images", folder);
  const Shape& net = recipe.sample_shape;
  const Shape image = set.sample(0).front().shape();
  if (image != Shape{net[1], net[2], net[0]})
    throw InvalidArgument("{}: images are {}, {} reads {}", folder, image.str(), recipe.name,
                          Shape{net[1], net[2], net[0]}.str());
}

// The images that the net reads, of those that there are.
Recipe recipe_for(const Recipe& recipe, const DataSource& source, const data::Dataset& train) {
  if (!recipe.from_data || source.image_is_set) return recipe;
  return with_image_shape(recipe, choose_image_shape(recipe, train, source.image_size));
}

RecipeData image_data(const Recipe& given, const DataSource& source) {
  ImageSets sets = open_images(given, source);
  const Recipe recipe = recipe_for(given, source, *sets.train);
  if (sets.is_folder || recipe.from_data) {
    sets.train = fit_images(recipe, sets.train);
    if (!sets.is_whole) sets.test = fit_images(recipe, sets.test);
  }
  RecipeData result{sets.is_whole ? four_of_five(sets.train) : sets.train,
                    sets.is_whole ? every_fifth(sets.train) : sets.test,
                    {},
                    recipe.sample_shape};
  check_images(recipe, source.place, *result.train);
  check_images(recipe, source.place, *result.test);
  if (result.train->class_names() != result.test->class_names())
    throw InvalidArgument("{}: train has the classes {}; test has {}", source.place,
                          fmt::join(result.train->class_names(), ", "),
                          fmt::join(result.test->class_names(), ", "));
  return result;
}

data::DatasetPtr encode_texts(const Recipe& recipe, const data::TextSet& set,
                              const TextCodec& codec) {
  std::vector<data::TokenNumbers> rows;
  for (const std::string& text : set.texts) rows.push_back(codec.encode(text));
  return std::make_shared<data::TextClassification>(
      std::move(rows), set.labels,
      data::TextOptions{.bounds = {recipe.sample_shape[0]}, .class_names = set.class_names});
}

// A class that nothing belongs to is a mistake, not a class.
void check_texts(const data::TextSet& set, const std::string& folder) {
  for (std::size_t i = 0; i < set.class_names.size(); ++i)
    if (std::count(set.labels.begin(), set.labels.end(), static_cast<std::int64_t>(i)) == 0)
      throw NotFound("{}: a class has no files: {}", folder, set.class_names[i]);
}

// A folder for each class; every fifth text is held out.
RecipeData text_data(const Recipe& recipe, const DataSource& source) {
  const data::TextSet all = data::read_text_folder(source.place);
  if (all.class_names.size() < 2)
    throw InvalidArgument("{}: has {} folder of texts, expected one for each of 2 classes or more",
                          source.place, all.class_names.size());
  if (all.texts.empty())
    throw InvalidArgument("{}: its folders {} have no files, expected texts", source.place,
                          fmt::join(all.class_names, ", "));
  check_texts(all, source.place);
  if (all.texts.size() < 5)
    throw InvalidArgument("{}: has {} texts, expected 5 or more: every fifth is held out",
                          source.place, all.texts.size());
  const data::TextSet train = data::take_every(all, 5, 0, 4);
  const TextCodecPtr codec =
      source.codec ? source.codec : std::make_shared<TextCodec>(recipe, train.texts);
  return {encode_texts(recipe, train, *codec),
          encode_texts(recipe, data::take_every(all, 5, 4, 5), *codec),
          codec,
          {}};
}

// The set's own file, or all .txt files of a folder, by name.
std::string read_book(const std::string& place) {
  if (!fs::is_directory(place)) return read_file(place);
  if (fs::exists(place + "/moby-dick.txt")) return data::moby_dick(place);
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(place))
    if (entry.path().extension() == ".txt") files.push_back(entry.path().string());
  if (files.empty()) throw NotFound("{}: has no .txt file", place);
  std::sort(files.begin(), files.end());
  std::string text;
  for (const std::string& file : files) text += read_file(file);
  return text;
}

// The last tenth is held out. Windows for training overlap: each place is learnt in several
// contexts.
RecipeData character_data(const Recipe& recipe, const DataSource& source) {
  const std::string text = read_book(source.place);
  std::size_t cut = text.size() / 10 * 9;
  while (cut < text.size() && (static_cast<unsigned char>(text[cut]) & 0xC0U) == 0x80U) ++cut;
  const std::string learnt = text.substr(0, cut), held_out = text.substr(cut);
  const TextCodecPtr codec =
      source.codec ? source.codec
                   : std::make_shared<TextCodec>(recipe, std::span<const std::string>(&learnt, 1));
  const std::int64_t length = recipe.sample_shape[0];
  return {std::make_shared<data::TokenWindows>(codec->encode(learnt), length, length / 4),
          std::make_shared<data::TokenWindows>(codec->encode(held_out), length),
          codec,
          {}};
}

constexpr std::int64_t kLookedAt = 64;  // samples of a set

// One that does not decode is whoever reads it's to report.
void add_sample(Sha256& sum, const data::Dataset& set, std::int64_t index) {
  try {
    for (const Tensor& field : set.sample(index)) {
      const Tensor dense = field.contiguous();
      sum.update({dense.raw(), dense.info().bytes()});
    }
  } catch (const Corrupt&) {
    sum.update("bad");
  }
}

void add_set(Sha256& sum, const data::Dataset& set) {
  sum.update(fmt::format("{} of {}\n", set.size(), fmt::join(set.class_names(), ", ")));
  const std::int64_t count = std::min(kLookedAt, set.size());
  for (std::int64_t i = 0; i < count; ++i)  // the first and the last among them
    add_sample(sum, set, count == 1 ? 0 : (set.size() - 1) * i / (count - 1));
}

}  // namespace

std::string data_sha256(const RecipeData& data) {
  Sha256 sum;
  add_set(sum, *data.train);
  add_set(sum, *data.test);
  if (data.codec) sum.update(data.codec->vocabulary().format());
  if (data.ratings)
    sum.update(fmt::format("{}\n{}\n", fmt::join(data.ratings->users.names(), "\n"),
                           fmt::join(data.ratings->items.names(), "\n")));
  return sum.hex();
}

static RecipeData generate(const Recipe& given, const DataSource& source) {
  Recipe recipe = given;
  if (given.from_data && !source.image_is_set)
    recipe = with_image_shape(given, generated_image_shape(given, source.image_size));
  return {synthetic_data(recipe, true), synthetic_data(recipe, false), {}, recipe.sample_shape};
}

RecipeData open_data(const Recipe& recipe, const DataSource& source) {
  if (recipe.is_recommender()) return rating_data(recipe, source);
  if (source.place == "synthetic") return generate(recipe, source);
  if (!fs::exists(source.place))
    throw NotFound("{}: there is no such folder with {}'s data", source.place, recipe.dataset);
  switch (recipe.task) {
    case Task::texts: return text_data(recipe, source);
    case Task::characters: return character_data(recipe, source);
    default: return image_data(recipe, source);
  }
}

}  // namespace lockstep::recipes
