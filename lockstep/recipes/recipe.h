// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/dataset.h"
#include "lockstep/data/transform.h"
#include "lockstep/nn/block.h"
#include "lockstep/nn/metric.h"
#include "lockstep/recipes/learning.h"
#include "lockstep/train/fields.h"
#include "lockstep/train/loss_function.h"

namespace lockstep::recipes {

// Ratings are numbers to be told; clicks are those that are high, or not.
enum class Task { images, texts, characters, ratings, clicks };

// Cross-entropy of each sample, or of each position where a sample has several labels.
train::LossFunction recipe_loss();

// A field of a sample that has others than an input and a label.
struct SampleField {
  train::Field use;
  Shape shape = {};
  DType dtype = DType::float32;
  std::int64_t range = 0;  // of generated numbers, 0 to range - 1; 0: any from 0 to 1
};

// What a recommender's net is made for: the ratings say it.
struct RatingSizes {
  std::int64_t users = 0, items = 0;
  double mean = 0.0;  // of the ratings that are trained on
};

// How large the net of a recipe is that comes in sizes; 0: as the recipe has it.
struct NetSize {
  std::int64_t width = 0, blocks = 0;
};

// A figure of merit besides the loss: RMSE, AUC.
struct RecipeMetric {
  std::string name = {};  // as nn::metric knows it; empty: none
  bool maximize = true;   // whether more is better
};

// The usual files of a set of images.
struct ImageFiles {
  std::string begin = {};  // of a file's name, by which a folder is known
  std::string names = {};  // for whoever looks for them
  data::DatasetPtr (*open)(const std::string& folder, bool train,
                           std::int64_t max_inflated) = nullptr;
};

// A model with its data and its way of learning, known by name to `lockstep train` and
// `lockstep bench`.
struct Recipe {
  std::string name;
  std::string summary;  // for lists, one line
  std::string dataset;  // as `lockstep data get` calls it
  Task task = Task::images;
  ImageFiles files = {};    // of images
  Shape sample_shape = {};  // of one input of the net
  DType input_dtype = DType::float32;
  std::int64_t input_range = 0;  // tokens: the vocabulary; images: 0
  Shape label_shape = {};        // of one sample's labels; scalar for one class a sample
  std::int64_t classes = 0;
  std::int64_t global_batch = 128;
  std::int64_t shards = 8;
  bool has_batch_norm = false;  // which wants 8 samples or more in a shard
  bool from_data = false;       // classes and image size are the data's (recipes/model_recipes.h)
  std::int64_t epochs = 5;
  std::int64_t bench_batch = 128;
  Learning learning = {};
  std::function<nn::BlockPtr(double dropout, std::int64_t classes)> model = {};
  // Of nets that come in sizes, instead; `size` is the recipe's own, whole.
  std::function<nn::BlockPtr(const NetSize&, double dropout, std::int64_t classes)> sized_model =
      {};
  NetSize size = {};
  std::int64_t head_width = 1;  // of attention: divides every width
  double dropout = 0.0;         // in training
  // Of a sample's first field as the data set gives it; may be null.
  std::function<data::Transform()> train_transform = {};
  std::function<data::Transform()> test_transform = {};
  Shape own_image = {};  // what the model was made for, where the data decides
  std::function<train::LossFunction()> loss = recipe_loss;
  RecipeMetric metric = {};
  std::vector<SampleField> sample_fields = {};  // none: an input and a label
  // Recommenders: their model, instead of the one above, and its sizes.
  std::function<nn::BlockPtr(const RatingSizes&)> recommender = {};
  RatingSizes sizes = {};

  bool is_recommender() const { return recommender != nullptr; }
  bool has_sizes() const { return sized_model != nullptr; }
  // The net that the recipe trains, without contents.
  nn::BlockPtr net() const { return net_with(dropout); }
  // What benchmarks run, as their peers do.
  nn::BlockPtr net_without_dropout() const { return net_with(0.0); }
  // Infos of a batch: the net's inputs, then the label.
  std::vector<TensorInfo> fields(std::int64_t batch) const;
  std::vector<TensorInfo> inputs(std::int64_t batch) const;
  // What the fields are for; empty: an input and a label.
  train::FieldRoles roles() const;
  // What evaluations compute besides loss and accuracy.
  std::vector<std::shared_ptr<nn::Metric>> metrics() const;

 private:
  nn::BlockPtr net_with(double dropped) const;
};

// A recipe with its net of another size; what is 0 stays. Throws InvalidArgument where the recipe
// has one size alone, and for a width that its heads do not divide.
Recipe with_size(Recipe recipe, const NetSize& size);

const std::vector<Recipe>& all_recipes();
// One of those, or of a library model (recipes/model_recipes.h). Throws NotFound with the names of
// the recipes.
const Recipe& find_recipe(std::string_view name);
std::vector<std::string> recipe_names();
std::vector<std::string> sized_recipe_names();

}  // namespace lockstep::recipes
